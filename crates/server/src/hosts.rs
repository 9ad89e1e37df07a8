//! Which names this server answers to, and which pages may talk to it.
//!
//! A page on the internet can make a browser send requests to loopback, under its own name (a rebound
//! host) or across origins. Both are refused before anything else is looked at.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header, uri::Authority};

use crate::{
    ServerSettings,
    error::{Code, Problem},
};

/// The hosts and origins that are let in.
#[derive(Debug)]
pub(crate) struct Hosts {
    listen: Option<IpAddr>,
    names: Vec<String>,
    origins: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let lower = |texts: &[String]| {
            texts.iter().map(|text| text.trim_end_matches('/').to_ascii_lowercase()).collect()
        };
        Self {
            listen: settings.listen.map(|address| address.ip()).filter(|ip| !ip.is_unspecified()),
            names: lower(&settings.allowed_hosts),
            origins: lower(&settings.allowed_origins),
        }
    }

    /// Refuses a request for another host, or from a foreign page.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = host_of(uri, headers).filter(|host| self.answers_to(host)).ok_or_else(|| {
            let hint = "this server does not answer to that host; see server.allowed_hosts";
            Problem::new(Code::HostNotAllowed, hint)
        })?;
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let foreign = origins.any(|origin| {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            !self.origins.contains(&origin) && !is_same_origin(&origin, &host)
        });
        if foreign {
            let hint = "pages of that origin may not talk to this server";
            return Err(Problem::new(Code::OriginNotAllowed, hint));
        }
        Ok(())
    }

    fn answers_to(&self, host: &Authority) -> bool {
        let name = host.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        address.is_some_and(|ip| ip.is_loopback() || Some(ip) == self.listen)
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.names.iter().any(|allowed| allowed == name || allowed == host.as_str())
    }
}

/// The one host that the request is for, in lower case.
fn host_of(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let text = match (hosts.next(), hosts.next(), uri.authority()) {
        (Some(_), Some(_), _) | (None, _, None) => return None,
        (Some(host), None, _) => host.to_str().ok()?,
        (None, _, Some(authority)) => authority.as_str(),
    };
    let host: Authority = text.to_ascii_lowercase().parse().ok()?;
    (!text.contains('@')).then_some(host)
}

/// The scheme is not compared: behind a proxy that ends TLS the server does not know its own.
fn is_same_origin(origin: &str, host: &Authority) -> bool {
    let (rest, port) = match origin.split_once("://") {
        Some(("http", rest)) => (rest, 80),
        Some(("https", rest)) => (rest, 443),
        _ => return false,
    };
    rest.parse::<Authority>().is_ok_and(|origin| {
        origin.host() == host.host()
            && origin.port_u16().unwrap_or(port) == host.port_u16().unwrap_or(port)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(hosts: &Hosts, host: &[&str], origin: Option<&str>) -> Option<Code> {
        let mut headers = HeaderMap::new();
        for host in host {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        hosts.check(&Uri::from_static("/api/sessions"), &headers).err().map(|problem| problem.code)
    }

    fn hosts() -> Hosts {
        Hosts::new(&ServerSettings {
            listen: Some("192.168.1.7:7534".parse().unwrap()),
            allowed_hosts: vec!["skein.example.com".to_owned(), "other.example:8443".to_owned()],
            allowed_origins: vec!["https://ide.example".to_owned()],
            ..ServerSettings::default()
        })
    }

    #[test]
    fn only_loopback_the_own_address_and_configured_hosts_are_answered() {
        let hosts = hosts();
        for good in [
            "localhost",
            "LOCALHOST:7534",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:7534",
            "web.localhost",
            "192.168.1.7",
            "skein.example.com:443",
            "other.example:8443",
        ] {
            assert_eq!(check(&hosts, &[good], None), None, "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "other.example",
            "10.0.0.1",
            "user@localhost",
            "local host",
            "",
        ] {
            assert_eq!(check(&hosts, &[bad], None), Some(Code::HostNotAllowed), "{bad}");
        }
        assert_eq!(check(&hosts, &[], None), Some(Code::HostNotAllowed));
        assert_eq!(check(&hosts, &["localhost", "localhost"], None), Some(Code::HostNotAllowed));
    }

    #[test]
    fn a_page_must_be_the_servers_own_or_configured() {
        let hosts = hosts();
        for good in ["http://localhost:7534", "HTTP://LocalHost:7534", "https://ide.example"] {
            assert_eq!(check(&hosts, &["localhost:7534"], Some(good)), None, "{good}");
        }
        for bad in [
            "null",
            "http://localhost",
            "http://localhost:7535",
            "http://127.0.0.1:7534",
            "https://evil.example",
            "file://",
            "https://ide.example.evil",
            "",
        ] {
            let refused = check(&hosts, &["localhost:7534"], Some(bad));
            assert_eq!(refused, Some(Code::OriginNotAllowed), "{bad}");
        }
        assert_eq!(check(&hosts, &["localhost"], Some("http://localhost")), None);
        assert_eq!(check(&hosts, &["localhost:443"], Some("https://localhost")), None);
    }

    #[test]
    fn a_request_target_with_an_authority_needs_no_host_header() {
        let uri = Uri::from_static("http://localhost/api/sessions");

        assert!(hosts().check(&uri, &HeaderMap::new()).is_ok());
    }
}
