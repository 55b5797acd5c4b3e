"""What holds for every answer of pithd, whatever was asked over whatever front end."""

import clients
import wire
from wire import AA, NOERROR, NXDOMAIN, QR, RA, RD, SOA, TC, Z


def fits(answer, asked, via):
    """Checks an answer against the octets of its question; returns the answer.

    The question must be one that can be read."""
    question = wire.Message(asked)
    assert answer.id == question.id
    assert answer.has(QR) and answer.opcode == question.opcode
    assert answer.question == question.question, "the question is not echoed as asked"
    assert answer.has(RA) and not answer.has(Z)
    assert answer.has(RD) == question.has(RD)
    assert (answer.opt is None) == (question.opt is None), "OPT to who did not send it, or none"
    if answer.opt:
        assert answer.opt.version == 0 and answer.opt.size == 1232
        assert answer.opt.do == question.opt.do and answer.opt.z == 0
    if via == "udp":
        size = question.opt.size if question.opt else 512
        assert len(answer.wire) <= max(512, min(size, 1232))
    else:
        assert not answer.has(TC)
    if answer.http:
        freshness(answer)
    return answer


def freshness(answer):
    """The cache-control of a DoH response (RFC 8484 section 5.1)."""
    assert answer.http.header("date")
    life = [record.ttl for record in answer.answer]
    if answer.rcode == NXDOMAIN or (answer.rcode == NOERROR and not answer.answer):
        life += [min(r.ttl, int.from_bytes(r.rdata[-4:], "big"))
                 for r in answer.authority if r.type == SOA]
    if answer.rcode not in (NOERROR, NXDOMAIN) or not life or min(life) == 0:
        assert answer.http.max_age is None, f"{answer.http} for {answer}"
    elif answer.answer and answer.rcode == NOERROR:
        assert answer.http.max_age == min(life)
    else:
        assert answer.http.max_age <= min(life)


def answered(server, via, asked, rcode=NOERROR, addresses=None, local=False, **how):
    """Asks, checks all that, RCODE, AA and addresses; returns the answer."""
    answer = fits(clients.ask(server, via, asked, **how), asked, via)
    assert answer.rcode == rcode, f"{answer}"
    assert answer.has(AA) == local
    if addresses is not None:
        assert answer.addresses == addresses
    return answer


def all_answered(server, via, messages, rcode=NOERROR, timeout=10.0):
    """Asks all at once on one connection; returns the answers in the order of the messages."""
    answers = clients.ask_many(server, via, messages, timeout)
    for answer, message in zip(answers, messages):
        fits(answer, message, via)
    assert {answer.rcode for answer in answers} == {rcode}
    return answers
