from __future__ import annotations

import pytest

from server.errors import BadField, DuplicateField
from server.forms import read_form
from server.multipart import Part


def read(*parts: tuple[str, str]) -> object:
    return read_form(Part(name, text) for name, text in parts).values


def test_brackets_nest() -> None:
    """`a[b][c]` is what JSON writes as {"a": {"b": {"c": …}}}."""
    assert read(("a[b][c]", "1"), ("a[b][d]", "2"), ("a[e]", "3"), ("f", "4")) == {
        "a": {"b": {"c": "1", "d": "2"}, "e": "3"},
        "f": "4",
    }


def test_empty_brackets_make_a_list() -> None:
    """Each `k[]` is the next element."""
    assert read(("k[]", "1"), ("k[]", "1"), ("k[]", "2")) == {"k": ["1", "1", "2"]}


def test_lists_of_objects_are_read_in_both_orders() -> None:
    """openai-python groups by key, openai-node by element; the lists are the same."""
    wanted = {"k": [{"x": "1", "y": "2"}, {"x": "3", "y": "4"}]}
    assert read(("k[][x]", "1"), ("k[][x]", "3"), ("k[][y]", "2"), ("k[][y]", "4")) == wanted
    assert read(("k[][x]", "1"), ("k[][y]", "2"), ("k[][x]", "3"), ("k[][y]", "4")) == wanted


def test_lists_of_deeper_objects_are_read() -> None:
    """A list element may itself nest."""
    parts = (("k[][a][b]", "1"), ("k[][a][c]", "2"), ("k[][a][b]", "3"), ("k[][a][c]", "4"))
    assert read(*parts) == {"k": [{"a": {"b": "1", "c": "2"}}, {"a": {"b": "3", "c": "4"}}]}


def test_the_first_spelling_is_kept() -> None:
    """Errors can name a nested field as the client did."""
    fields = read_form([Part("a[b]", "1"), Part("a[c]", "2"), Part("d", "3")])
    assert fields.bracketed == {"a": "a[b]"}


def test_stray_brackets_are_a_name() -> None:
    """What is no nesting is taken literally, to be refused as unknown."""
    assert read(("a]", "1"), ("[b]", "2"), ("c[d]e", "3")) == {"a]": "1", "[b]": "2", "c[d]e": "3"}


def test_a_name_given_twice_is_a_duplicate() -> None:
    """Also below the top."""
    with pytest.raises(DuplicateField, match=r"a\[b\]: is given twice"):
        read(("a[b]", "1"), ("a[b]", "2"))


@pytest.mark.parametrize("second", ["a[]", "a[b][c]", "a[b][]"])
def test_a_field_cannot_be_two_things(second: str) -> None:
    """An object is no list, and a value is neither."""
    with pytest.raises(BadField, match="contradicts another field"):
        read(("a[b]", "1"), (second, "2"))
