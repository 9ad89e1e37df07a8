//! Which addresses a provider may have that nobody vouches for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// A provider's name stands for an address of this machine or network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is a private address, which only the configuration file may name")]
pub(super) struct PrivateAddress {
    host: String,
}

impl PrivateAddress {
    /// Finds it behind an error of the client.
    pub(super) fn cause_of<'a>(
        error: &'a (dyn std::error::Error + 'static),
    ) -> Option<&'a PrivateAddress> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }
}

/// Looks names up and refuses private addresses: what is checked is what is connected to.
#[derive(Debug, Clone, Copy)]
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.iter().any(|address| !is_public(address.ip())) {
                return Err(PrivateAddress { host: name.as_str().to_owned() }.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The address that a URL names without the help of a resolver.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether anyone on the Internet means the same machine by this address.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = matches!(
        address.octets(),
        [0 | 240..=255, ..]
            | [100, 64..=127, ..]
            | [192, 0, 0, _]
            | [192, 88, 99, _]
            | [198, 18..=19, ..]
    );
    !(special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Mapped, and the well-known prefix of NAT64: the IPv4 address decides.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, protocol assignments, documentation.
        [0x2001, 0..0x0200 | 0x0db8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // Global unicast is 2000::/3 and nothing else.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_open_internet_are_public() {
        let public =
            ["8.8.8.8", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"];
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2001:0:1::1",
            "2001:db8::1",
            "fec0::1",
            "100::1",
        ];

        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn odd_spellings_of_addresses_are_still_addresses() {
        for host in ["127.1", "0x7f000001", "2130706433", "[::1]", "0177.0.0.1"] {
            let url = Url::parse(&format!("http://{host}/v1")).unwrap();
            assert!(literal(&url).is_some_and(|address| !is_public(address)), "{host}");
        }
    }
}
