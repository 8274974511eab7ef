"""Listen addresses: every form that is documented, and a cure for those that are not."""

from __future__ import annotations

import pytest

from extauthz.service.addresses import Address, parse


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        pytest.param("127.0.0.1:9191", Address("127.0.0.1", 9191), True, id="v4"),
        pytest.param("10.0.0.7:0", Address("10.0.0.7", 0), False, id="v4-any-port"),
        pytest.param("[::1]:9191", Address("::1", 9191), True, id="v6"),
        pytest.param("[::]:9191", Address("::", 9191), False, id="v6-all"),
        pytest.param(":9191", Address("::", 9191), False, id="all-interfaces"),
        pytest.param("localhost:1", Address("localhost", 1), True, id="localhost"),
        pytest.param("gate.example:1", Address("gate.example", 1), False, id="name"),
        pytest.param("unix:/run/gate.sock", Address("", 0, "/run/gate.sock"), True, id="unix"),
    ],
)
def test_an_address_is_read(text: str, address: Address, loopback: bool) -> None:
    assert parse(text) == address
    assert address.loopback is loopback


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("9191", "has no port"),
        ("", "has no port"),
        ("host:", "number from 0 to 65535"),
        ("host:65536", "number from 0 to 65535"),
        ("host:٣", "number from 0 to 65535"),
        ("::1:9191", "goes in brackets"),
        ("[::x]:9191", "not an IPv6 address"),
        ("unix:gate.sock", "absolute path"),
        ("unix:/" + "x" * 107, "at most 107 bytes"),
    ],
)
def test_what_is_no_address_is_refused_with_a_cure(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(text)


@pytest.mark.parametrize("text", ["127.0.0.1:9191", "[::1]:9191", "unix:/run/gate.sock"])
def test_an_address_prints_as_it_is_written(text: str) -> None:
    assert str(parse(text)) == text
