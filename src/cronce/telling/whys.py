"""What is known of a slot, or of those of a job that matter, as JSON: these keys are a contract."""

from cronce.runtime.why import Story, Why
from cronce.telling.documents import act_document, past_document, run_document, survey_document
from cronce.telling.story import headline
from cronce.telling.words import iso


def why_document(found: Why) -> dict[str, object]:
    job = found.job
    return {
        "job": job.name,
        "next": iso(job.next(found.now)),
        "carried": found.carried,
        "paused": job.job.paused is not None if job.job else None,
        "pause": act_document(job.job.paused) if job.job else None,
        "floor": iso(job.job.floor) if job.job else None,
        "refusals": dict(found.refusals),
        "effects": survey_document(found.effects) if found.effects else None,
        "slots": [story_document(story, found) for story in found.stories],
    }


def story_document(story: Story, found: Why) -> dict[str, object]:
    record = story.run.record if story.run else None
    return {
        "slot": story.slot.key,
        "case": story.case,
        "sentence": headline(story, found),
        "run": run_document(story.run) if story.run else None,
        "past": [past_document(past) for past in record.past] if record else [],
        "refused": [{"host": host, "at": iso(one.at), "why": one.why} for host, one in story.refused],
        "effects": survey_document(story.effects),
        "output": record.output if record else "",
    }
