from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.engines.interp.functions.grok import grok
from shoal.engines.interp.functions.grok_patterns import PATTERNS
from shoal.model.text import format_value
from shoal.model.values import Value, is_error, string

LINE = "2020-09-16T04:20:42.45+01:00 DEBUG This is a sample debug log message"
MAIL = (
    "Jan  1 06:25:43 mailserver14 postfix/cleanup[21403]: BEF25A72965: "
    "message-id=<20130101142543.5828399CCAF@mailserver14.example.com>"
)
ACCESS = (
    '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 '
    '"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
)

CASES = [
    (
        ("%{TIMESTAMP_ISO8601:timestamp} %{LOGLEVEL:level} %{GREEDYDATA:message}", LINE),
        '{timestamp:"2020-09-16T04:20:42.45+01:00",level:"DEBUG",message:"This is a sample debug log message"}',
    ),
    (
        (
            "%{SYSLOGBASE} %{POSTFIX_QUEUEID:queue_id}: %{GREEDYDATA:syslog_message}",
            MAIL,
            "POSTFIX_QUEUEID [0-9A-F]{10,11}",
        ),
        (
            '{timestamp:"Jan  1 06:25:43",logsource:"mailserver14",program:"postfix/cleanup",'
            'pid:"21403",queue_id:"BEF25A72965",'
            'syslog_message:"message-id=<20130101142543.5828399CCAF@mailserver14.example.com>"}'
        ),
    ),
    (("%{MY_NUMTZ:tz}", "+7000", r"MY_NUMTZ [+-]\d{4}"), '{tz:"+7000"}'),
    (
        (r"\(%{PH_PREFIX:prefix}\)-%{PH_LINE_NUM:line_number}", "(555)-1212", "PH_PREFIX \\d{3}\nPH_LINE_NUM \\d{4}"),
        '{prefix:"555",line_number:"1212"}',
    ),
    (
        ("%{ONE:zero}-%{TWO:three}", "0-1-2", "# digits\n\nONE \\d\r\nTWO %{ONE:one}-%{ONE:two}"),
        '{zero:"0",three:"1-2",one:"1",two:"2"}',
    ),
    (("%{TWO:two}", "1-2", "ONE \\d\nTWO %{ONE:one}-%{ONE:two}"), '{two:"1-2",one:"1"}'),
    (("(a)(?:%{INT:n})?(b)%{DATA:d}$", "ab"), '{d:""}'),
    (("%{INT:int:int64}", "0"), '{int:"0"}'),
    (("%{INT:one} %{INT:one}", "1 2"), '{one:"2"}'),
    (("%{INT:a.b} %{INT:[a][c]}", "1 2"), '{"a.b":"1","[a][c]":"2"}'),
    (("a+", "xaax"), "{}"),
    (("%{INT:int}", "string value"), 'error({message:"grok(): value does not match pattern",on:"string value"})'),
    (("%{NOPE:x}", "a"), 'error({message:"grok(): the \'NOPE\' pattern doesn\'t exist",on:"%{NOPE:x}"})'),
    (("", "a"), 'error({message:"grok(): an empty expression",on:""})'),
    (("a(", "a"), 'error({message:"grok(): error parsing regexp: missing closing ): `a(`",on:"a("})'),
    (("%{INT:x}", "1", "INT x"), 'error({message:"grok(): the pattern already exist",on:"INT x"})'),
    (("a", "a", "X %{X}"), 'error({message:"grok(): the \'X\' pattern doesn\'t exist",on:"X %{X}"})'),
]


@pytest.mark.parametrize("args, expected", CASES)
def test_grok(args: tuple[str, ...], expected: str) -> None:
    assert format_value(grok(*map(string, args))) == expected


ERRORS = [
    ('1 "a"', 'error({message:"grok(): pattern argument must be a string",on:1})'),
    ('"a" 1', 'error({message:"grok(): input argument must be a string",on:1})'),
    ('1 1 ["d"]', 'error({message:"grok(): definitions argument must be a string",on:["d"]})'),
]


@pytest.mark.parametrize("args, expected", ERRORS)
def test_arguments_are_strings(call: Callable[[str, str], str], args: str, expected: str) -> None:
    assert call("grok", args) == expected


def test_a_web_server_log() -> None:
    made = grok(string("%{COMBINEDAPACHELOG}"), string(ACCESS))
    expected = {
        "clientip": "127.0.0.1",
        "ident": "-",
        "auth": "frank",
        "verb": "GET",
        "bytes": "2326",
        "httpversion": "1.0",
    }
    assert {name: text(made, name) for name in expected} == expected


def text(value: Value, name: str) -> str:
    found = value.field(name)
    assert found is not None
    return str(found.data)


SAMPLES = {
    "EMAILADDRESS": "jo.e@example.com",
    "QUOTEDSTRING": r'"a \" b"',
    "MAC": "00:1b:63:84:45:e6",
    "IPV6": "2001:db8::8a2e:370:7334",
    "IP": "::ffff:10.0.0.1",
    "IPV4": "192.168.0.255",
    "HOSTPORT": "example.com:80",
    "UNIXPATH": "/var/log/a.log",
    "WINPATH": r"C:\a\b",
    "TTY": "/dev/pts/0",
    "URI": "http://u:p@h.example:8080/a/b?c=d",
    "UUID": "123e4567-e89b-12d3-a456-426614174000",
    "TIME": "13:55:36.5",
    "DATE": "2024/07/30",
    "DATESTAMP_RFC2822": "Tue, 30 Jul 2024 06:15:01 +0100",
    "HTTPDATE": "10/Oct/2000:13:55:36 -0700",
    "RFC3339NANO": "2024-07-30T06:15:01.062681000Z",
    "KITCHEN": "3:04PM",
    "LOGLEVEL": "Warning",
    "MONTH": "März",
    "BASE16FLOAT": "0xff.8",
}


@pytest.mark.parametrize("name, sample", SAMPLES.items())
def test_a_pattern_matches_its_sample_as_a_whole(name: str, sample: str) -> None:
    assert text(grok(string(f"^%{{{name}:x}}$"), string(sample)), "x") == sample


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_compiles(name: str) -> None:
    made = grok(string(f"%{{{name}}}"), string("no such text"))
    assert not is_error(made) or "does not match" in format_value(made)


def test_definitions_that_double_at_every_level_are_refused() -> None:
    lines = "\n".join(["A0 aaaaaaaa", *(f"A{i} %{{A{i - 1}}}%{{A{i - 1}}}" for i in range(1, 40))])
    assert "expression too large" in format_value(grok(string("%{A39}"), string("a"), string(lines)))
