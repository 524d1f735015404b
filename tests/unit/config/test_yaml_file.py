from pathlib import Path

import pytest

from collector.config.yaml_file import parse, read, substitute
from collector.errors import ConfigError


def test_puts_environment_variables_into_values_and_never_into_keys() -> None:
    value = {"${env:A}": ["x${env:A}y", {"b": "${env:B:-none}"}], "n": 3}
    assert substitute(value, "f", {"A": "1"}) == {"${env:A}": ["x1y", {"b": "none"}], "n": 3}


def test_names_the_variable_that_is_not_set_and_where() -> None:
    with pytest.raises(ConfigError, match=r"f: judges\.main\.keys\[0\]: the environment variable NOPE is not set"):
        substitute({"judges": {"main": {"keys": ["${env:NOPE}"]}}}, "f", {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"a: &x [1]\nb: *x\n", "line 2, column 4: aliases"),
        (b"a: 1\nb: 2\na: 3\n", "line 3, column 1: the key 'a' occurs twice"),
        (b"a: !!python/object:os.system {}\n", "line 1, column 4"),
        (b"a: [1, 2\n", "line 2"),
        (b"\xff\xfe\xff", "is not valid YAML"),
        (b"- 1\n", "must be a mapping"),
        (b"", "must be a mapping"),
        (b"a: " + b"[" * 100_000, "nested more than 50 levels"),
    ],
)
def test_refuses_what_is_no_plain_mapping(text: bytes, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, "my.yaml")
    assert str(raised.value).startswith("my.yaml: ")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_says_that_a_file_is_missing_and_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"nowhere\.yaml: cannot be read \(No such file or directory\); name the file"
    ):
        read(tmp_path / "nowhere.yaml")


def test_refuses_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"a: 1\n#" + b"x" * (1 << 20))
    for huge in (path, Path("/dev/zero")):
        with pytest.raises(ConfigError, match="larger than 1 MiB"):
            read(huge)
