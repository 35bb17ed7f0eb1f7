r"""The named patterns that grok starts out with: those of Logstash, in RE2 syntax, without look-around.

A pattern may use those above it, as `%{NAME}` or `%{NAME:field}`.
"""

from __future__ import annotations

_GROUP = "[0-9A-Fa-f]{1,4}"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_DOTTED = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _ipv6() -> str:
    """Eight groups, or fewer around `::`; the last two may be a dotted IPv4 address. Longer beginnings come first."""
    forms = [f"(?:{_GROUP}:){{7}}(?:{_GROUP}|:)", f"(?:{_GROUP}:){{6}}(?::{_GROUP}|{_DOTTED}|:)"]
    for lead in range(5, 0, -1):
        dotted = f"(?::{_GROUP}){{0,{5 - lead}}}:{_DOTTED}"
        forms.append(f"(?:{_GROUP}:){{{lead}}}(?:(?::{_GROUP}){{1,{7 - lead}}}|{dotted}|:)")
    forms.append(f":(?:(?::{_GROUP}){{1,7}}|(?::{_GROUP}){{0,5}}:{_DOTTED}|:)")
    return rf"(?:{'|'.join(forms)})(?:%\S+)?"


def _levels(*names: str) -> str:
    """Names of log levels in lower case, with a capital or all in capitals; what follows a slash may be left out."""
    forms = []
    for name in names:
        must, _, may = name.partition("/")
        tail, capital_tail = (f"(?:{may})?", f"(?:{may.upper()})?") if may else ("", "")
        forms.append(f"[{must[0].upper()}{must[0]}]{must[1:]}{tail}|{must.upper()}{capital_tail}")
    return "|".join(forms)


PATTERNS: dict[str, str] = {
    # ---- names and numbers
    "USERNAME": r"[a-zA-Z0-9._-]+",
    "USER": r"%{USERNAME}",
    "EMAILLOCALPART": r"[a-zA-Z][a-zA-Z0-9_.+=:-]+",
    "HOSTNAME": r"\b[0-9A-Za-z][0-9A-Za-z-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z-]{0,62})*(?:\.|\b)",
    "HOST": r"%{HOSTNAME}",
    "EMAILADDRESS": r"%{EMAILLOCALPART}@%{HOSTNAME}",
    "HTTPDUSER": r"%{EMAILADDRESS}|%{USER}",
    "INT": r"[+-]?[0-9]+",
    "BASE10NUM": r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)",
    "NUMBER": r"%{BASE10NUM}",
    "BASE16NUM": r"[+-]?(?:0x)?[0-9A-Fa-f]+",
    "BASE16FLOAT": r"\b[+-]?(?:0x)?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)\b",
    "POSINT": r"\b[1-9][0-9]*\b",
    "NONNEGINT": r"\b[0-9]+\b",
    # ---- text
    "WORD": r"\b\w+\b",
    "NOTSPACE": r"\S+",
    "SPACE": r"\s*",
    "DATA": r".*?",
    "GREEDYDATA": r".*",
    "QUOTEDSTRING": r""""(?:\\.|[^\\"])*"|'(?:\\.|[^\\'])*'|`(?:\\.|[^\\`])*`""",
    "QS": r"%{QUOTEDSTRING}",
    "UUID": r"[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}",
    # ---- networks
    "CISCOMAC": r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}",
    "WINDOWSMAC": r"(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}",
    "COMMONMAC": r"(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}",
    "MAC": r"%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}",
    "IPV6": _ipv6(),
    "IPV4": r"(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})",
    "IP": r"%{IPV6}|%{IPV4}",
    "IPORHOST": r"%{IP}|%{HOSTNAME}",
    "HOSTPORT": r"%{IPORHOST}:%{POSINT}",
    # ---- paths and URIs
    "UNIXPATH": r"(?:/(?:[\w%!$@:.,~-]|\\.)*)+",
    "TTY": r"/dev/(?:pts|tty[pq]?)\w*/?[0-9]+",
    "WINPATH": r"(?:[A-Za-z]+:|\\)(?:\\[^\\?*]*)+",
    "PATH": r"%{UNIXPATH}|%{WINPATH}",
    "URIPROTO": r"[A-Za-z]+(?:\+[A-Za-z+]+)?",
    "URIHOST": r"%{IPORHOST}(?::%{POSINT:port})?",
    "URIPATH": r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%_-]*)+",
    "URIPARAM": r"\?[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\[\]<>-]*",
    "URIPATHPARAM": r"%{URIPATH}(?:%{URIPARAM})?",
    "URI": r"%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?",
    # ---- parts of dates and times
    "MONTH": (
        r"\b(?:Jan(?:uary?)?|Feb(?:ruary?)?|M(?:a|ä)?r(?:ch|z)?|Apr(?:il)?|Ma[yi]|Jun[ei]?|Jul[yi]?|Aug(?:ust)?"
        r"|Sep(?:tember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?)\b"
    ),
    "MONTHNUM": r"0?[1-9]|1[0-2]",
    "MONTHNUM2": r"0[1-9]|1[0-2]",
    "MONTHDAY": r"0[1-9]|[12][0-9]|3[01]|[1-9]",
    "DAY": r"Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?",
    "YEAR": r"(?:[0-9]{2}){1,2}",
    "HOUR": r"2[0-3]|[01]?[0-9]",
    "MINUTE": r"[0-5][0-9]",
    "SECOND": r"(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?",
    "TIME": r"%{HOUR}:%{MINUTE}:%{SECOND}",
    "TZ": r"[A-Z]{3}",
    "NUMTZ": r"[+-][0-9]{4}",
    "ISO8601_TIMEZONE": r"Z|[+-]%{HOUR}:?%{MINUTE}",
    "ISO8601_SECOND": r"%{SECOND}|60",
    # ---- dates and times
    "DATE_US": r"%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}",
    "DATE_EU": r"%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}",
    "DATE_X": r"%{YEAR}/%{MONTHNUM2}/%{MONTHDAY}",
    "DATE": r"%{DATE_US}|%{DATE_EU}|%{DATE_X}",
    "DATESTAMP": r"%{DATE}[- ]%{TIME}",
    "TIMESTAMP_ISO8601": (r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?%{ISO8601_TIMEZONE}?"),
    "DATESTAMP_ISO8601": r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}",
    "DATESTAMP_RFC822": r"%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}",
    "DATESTAMP_RFC2822": r"%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}",
    "DATESTAMP_OTHER": r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}",
    "DATESTAMP_EVENTLOG": r"%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}",
    "HTTPDERROR_DATE": r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}",
    "ANSIC": r"%{DAY} %{MONTH} [ _123]\d %{TIME} %{YEAR}",
    "UNIXDATE": r"%{DAY} %{MONTH} [ _123]\d %{TIME} %{TZ} %{YEAR}",
    "RUBYDATE": r"%{DAY} %{MONTH} [0-3]\d %{TIME} %{NUMTZ} %{YEAR}",
    "RFC822Z": r"[0-3]\d %{MONTH} %{YEAR} %{TIME} %{NUMTZ}",
    "RFC850": r"%{DAY}, [0-3]\d-%{MONTH}-%{YEAR} %{TIME} %{TZ}",
    "RFC1123": r"%{DAY}, [0-3]\d %{MONTH} %{YEAR} %{TIME} %{TZ}",
    "RFC1123Z": r"%{DAY}, [0-3]\d %{MONTH} %{YEAR} %{TIME} %{NUMTZ}",
    "RFC3339": r"%{YEAR}-[01]\d-[0-3]\dT%{TIME}%{ISO8601_TIMEZONE}",
    "RFC3339NANO": r"%{YEAR}-[01]\d-[0-3]\dT%{HOUR}:%{MINUTE}:[0-6]\d\.\d{9}%{ISO8601_TIMEZONE}",
    "KITCHEN": r"\d{1,2}:\d{2}(?:AM|PM|am|pm)",
    "HTTPDATE": r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}",
    # ---- system logs
    "SYSLOGTIMESTAMP": r"%{MONTH} +%{MONTHDAY} %{TIME}",
    "PROG": r"[\x21-\x5a\x5c\x5e-\x7e]+",
    "SYSLOGPROG": r"%{PROG:program}(?:\[%{POSINT:pid}\])?",
    "SYSLOGHOST": r"%{IPORHOST}",
    "SYSLOGFACILITY": r"<%{NONNEGINT:facility}.%{NONNEGINT:priority}>",
    "SYSLOGBASE": r"%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    "LOGLEVEL": _levels(
        "alert", "trace", "debug", "notice", "info", "warn/ing", "err/or", "crit/ical", "fatal", "severe", "emerg/ency"
    ),
    # ---- logs of web servers
    "COMMONAPACHELOG": (
        r"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{USER:auth} \[%{HTTPDATE:timestamp}\] "
        r'"(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" '
        r"%{NUMBER:response} (?:%{NUMBER:bytes}|-)"
    ),
    "COMBINEDAPACHELOG": r"%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}",
    "HTTPD20_ERRORLOG": (
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:loglevel}\] "
        r"(?:\[client %{IPORHOST:clientip}\] )?%{GREEDYDATA:errormsg}"
    ),
    "HTTPD24_ERRORLOG": (
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{WORD:module}:%{LOGLEVEL:loglevel}\] "
        r"\[pid %{POSINT:pid}:tid %{NUMBER:tid}\]"
        r"(?: \(%{POSINT:proxy_errorcode}\)%{DATA:proxy_errormessage}:)?"
        r"(?: \[client %{IPORHOST:client}:%{POSINT:clientport}\])? %{DATA:errorcode}: %{GREEDYDATA:message}"
    ),
    "HTTPD_ERRORLOG": r"%{HTTPD20_ERRORLOG}|%{HTTPD24_ERRORLOG}",
}
