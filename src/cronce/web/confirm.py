"""The pages that stand before an act: what would happen, how things stand, and a button."""

import re
from collections.abc import Mapping
from functools import partial
from secrets import token_hex
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from cronce.errors import CronceError, NotOnRecord, StoreError
from cronce.model import Traits
from cronce.runtime.effects.seen import effect, effect_named
from cronce.runtime.flow import Flow
from cronce.runtime.hand.acts import Hand
from cronce.runtime.look import job_names, refuse_unknown, slot_named
from cronce.runtime.why import why
from cronce.telling.story import about, tell
from cronce.web.actions import ACTIONS, Action, Field, Subject, named, told
from cronce.web.bodies import read_json
from cronce.web.flash import tell_next
from cronce.web.login import signed_form
from cronce.web.problems import Problem, status_of
from cronce.web.security import LASTS
from cronce.web.site import Site, path, root_of, site_of

_NONCE: Final = re.compile("[0-9a-f]{16}")

SENT_BEFORE: Final = "This form was sent before: nothing changed."


async def confirm(request: Request, action: Action) -> Response:
    site = site_of(request)
    subject = named(action.of, request.path_params["subject"])
    if request.method != "POST":
        return await _page(request, site, action, subject)
    given = await signed_form(request, site)
    session = site.session(request)
    assert session is not None
    try:
        said = {field.name: _said(field, given[field.name]) for field in action.fields if given.get(field.name)}
        _complete(action, said)
        done = await site.act(f"{session.by} (page)", lambda hand: _wish(hand, action, subject, said, given))
    except StoreError:
        raise
    except (CronceError, Problem) as error:
        status = error.status if isinstance(error, Problem) else status_of(error)
        return await _page(request, site, action, subject, given=given, wrong=str(error), status=status)
    answer = RedirectResponse(path(*_after(action, subject, done or {}), root=root_of(request)), 303)
    assert site.keys is not None
    tell_next(answer, site.keys, session, told(action.name, done) if done else SENT_BEFORE, f"{root_of(request)}/")
    return answer


def _wish(
    hand: Hand, action: Action, subject: str, said: dict[str, Any], given: Mapping[str, str]
) -> Flow[dict[str, object] | None]:
    """What comes of a form. One that is sent twice is one wish, whatever happened in between: what can be asked for by
    an id is asked for by the form's own, and anything else is not done again."""
    once = given.get("once", "")
    if _NONCE.fullmatch(once):
        if action.takes_id:
            said.setdefault("id", f"page-{once}")
        elif not (yield from hand.once(once, LASTS)):
            return None
    return (yield from action.act(hand, subject, said))


async def _page(
    request: Request,
    site: Site,
    action: Action,
    subject: str,
    *,
    given: dict[str, str] | None = None,
    wrong: str = "",
    status: int = 200,
) -> Response:
    traits = (await site.opened()).store.traits
    stands = await site.ask(_stands(action.of, subject, traits))
    return site.render(
        request,
        "confirm.html",
        status,
        action=action,
        subject=subject,
        stands=stands,
        given=given or {},
        once=token_hex(8),
        wrong=wrong,
        command=action.command(subject),
        back=path(*_home(action.of, subject), root=root_of(request)),
    )


def _stands(of: Subject, subject: str, traits: Traits) -> Flow[str]:
    """How things stand with it just now, in sentences."""
    if of == "effects":
        one = yield from effect(effect_named(subject))
        if one is None:
            raise NotOnRecord(f"nothing is known of {subject}")
        return f"{one.name} is {one.state}" + (f": {one.why}" if one.why else "")
    slot = slot_named(subject) if of == "runs" else None
    found = yield from why(slot.job if slot else subject, slot, traits)
    if found is None:
        refuse_unknown(slot.job if slot else subject, (yield from job_names()))
        raise NotOnRecord(f"nothing is known of {subject}")
    return tell(found.stories[0], found) if slot else about(found)


def _said(field: Field, text: str) -> Any:
    match field.kind:
        case "json":
            try:
                return read_json(text)
            except ValueError as error:
                raise Problem(422, f"{field.label}: {error}") from None
        case "yes":
            return text == "yes"
        case "choice" if text not in field.choices:
            raise Problem(422, f"{field.label}: say one of {', '.join(field.choices)}")
        case _:
            return text.strip()


def _complete(action: Action, said: dict[str, Any]) -> None:
    for field in action.fields:
        if field.kind == "choice" and field.name not in said:
            raise Problem(422, f"{field.label}: say one of {', '.join(field.choices)}")


def _home(of: Subject, subject: str) -> tuple[str, ...]:
    return ("effects",) if of == "effects" else (of, subject)


def _after(action: Action, subject: str, done: dict[str, object]) -> tuple[str, ...]:
    """Where one sees what came of it."""
    return ("runs", str(done["key"])) if "key" in done else _home(action.of, subject)


def _route(action: Action) -> Route:
    """The name of an effect may have slashes in it."""
    place = "{subject:path}" if action.of == "effects" else "{subject}"
    return Route(f"/{action.of}/{place}/{action.name}", partial(confirm, action=action), methods=["GET", "POST"])


ROUTES: Final = tuple(_route(action) for action in ACTIONS)
