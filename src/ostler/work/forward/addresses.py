"""Which addresses may be posted to: settings name a host, and a host may resolve to anything. Pure."""

import ipaddress
from collections.abc import Sequence

_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("2002::/16"))


def refusal(addresses: Sequence[str], allow_private: bool) -> str:
    """Why these may not be posted to; "" if all may. One that may not is enough: the next look may give that one."""
    for text in addresses:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return f"{text} is not an address"
        if why := _why(address, allow_private):
            return f"{text} is {why}"
    return "" if addresses else "it has no address"


def _why(address: ipaddress.IPv4Address | ipaddress.IPv6Address, allow_private: bool) -> str:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return _why(address.ipv4_mapped, allow_private)
        if any(address in network for network in _TRANSLATED):
            return "a translated address"
    # Services that hand out credentials of the machine live there: nobody can allow these.
    if address.is_link_local or str(address) == "fd00:ec2::254":
        return "a link-local address"
    if address.is_multicast or address.is_unspecified or (address.is_reserved and not address.is_loopback):
        return "not an address of one machine"
    if address.is_global or allow_private:
        return ""
    return "an address of this machine" if address.is_loopback else "a private address"
