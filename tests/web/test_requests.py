"""What comes with a request is read within bounds."""

from tests.web.house import API_PAUSE, PAUSE, Api, Browser, Busy, paused


def test_bodies_have_bounds_and_a_form() -> None:
    busy = Busy()
    visitor, program = Browser(busy.app), Api(busy.app)
    visitor.log_in()
    word = visitor.csrf(PAUSE)
    assert visitor.post(PAUSE, {"csrf": word, "reason": "x" * 300_000}).status_code == 413
    assert visitor.send("POST", PAUSE, json={"csrf": word}).status_code == 415
    assert visitor.send("POST", PAUSE, files={"csrf": b"x"}).status_code == 415
    assert visitor.post(PAUSE, {f"f{number}": "x" for number in range(50)}).status_code == 400
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert visitor.send("POST", PAUSE, content=b"csrf=\xff", headers=form).status_code == 400
    assert visitor.send("POST", PAUSE, content=b"csrf=%ff", headers=form).status_code == 400
    as_json = {"Content-Type": "application/json"}
    for body, status in (
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b'{"reason": NaN}', 400),
        (b"[" * 100_000, 400),
        (b'{"reason": ' + b'"x' * 150_000, 413),
        (b'{"nix": 1}', 422),
        (b'{"reason": 1}', 422),
    ):
        answer = program.send("POST", API_PAUSE, content=body, headers=as_json)
        assert answer.status_code == status, (body[:20], answer.text)
    assert program.send("POST", API_PAUSE, content=b"reason=x", headers=form).status_code == 415
    assert not paused(busy)
