//! The one implementation of cryptography that TLS uses.

/// Makes `ring` the process's choice. To be called before the first HTTP client is made; calling it again does nothing.
pub fn install_tls() {
    // An error means that a choice was made before.
    drop(rustls::crypto::ring::default_provider().install_default());
}
