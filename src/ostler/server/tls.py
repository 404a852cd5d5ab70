"""TLS that the server ends itself: its certificate, and how processes of this machine know it again."""

import hashlib
import ssl

from msgspec import Struct

from ostler.errors import OstlerError


class TlsFiles(Struct, frozen=True, kw_only=True):
    """PEM files: the certificate with those that it was issued by, and its private key."""

    certificate: str
    key: str


def server_tls(files: TlsFiles) -> ssl.SSLContext:
    """Raises bad_request for files that are missing, cannot be read, hold something else, or do not belong together."""
    for what, path in (("certificate", files.certificate), ("key", files.key)):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as error:
            hint = f"Name a PEM file that you can read: --tls-{'cert' if what == 'certificate' else 'key'} FILE"
            raise OstlerError("bad_request", f"the {what} {path} cannot be read: {error.strerror}", hint) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except OSError as error:  # of which ssl.SSLError is one
        raise _unusable(files, error) from error
    return context


def fingerprint_of(files: TlsFiles) -> str:
    """Of the server's own certificate, which comes first in the file."""
    with open(files.certificate, encoding="ascii", errors="replace") as file:
        text = file.read()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    first = text[text.index(begin) : text.index(end) + len(end)]
    return fingerprint(ssl.PEM_cert_to_DER_cert(first))


def fingerprint(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def _no_password() -> str:
    """Instead of OpenSSL's own question at the terminal."""
    raise OstlerError("bad_request", "the TLS key is encrypted", "Decrypt it: openssl pkey -in KEY -out PLAIN")


def _unusable(files: TlsFiles, error: OSError) -> OstlerError:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        message = f"the key {files.key} does not belong to the certificate {files.certificate}"
        return OstlerError("bad_request", message, "Name the key that the certificate was requested with")
    message = f"{files.certificate} and {files.key} cannot be used for TLS: {error}"
    return OstlerError("bad_request", message, "Both have to be in PEM form: -----BEGIN …")
