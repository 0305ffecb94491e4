"""Python: what is bound, called and defined, and what a name stands for. Rules of other parts use it too.

    from cronce_audit.python.facts import Call, Called, Const, Name, ...
    from cronce_audit.python.names import names
    from cronce_audit.python.names import starts

    known = facts.conclude(names)
    for call in known.calls("add_job"):                      # Call: called, scope, place, method, receiver
        made = known.receiver(call)                          # Value: Called(Name("apscheduler....BackgroundScheduler"))
        known.kinds(made)                                    # its class, and those of the tree and above it
        known.constant(call.called.keyword("id"), call.scope.module)    # 'sync', or UNKNOWN
        facts.conclude(starts).why(call.scope)               # "when its module is imported", ..., "" is not at start-up

`names.target(call)` is the full name of what is called (`uvicorn.run`, `redis.Redis.setnx`, `app.jobs.main`);
`names.origin(value, near)` follows any value, `names.kind(s)` tells its class, `names.function(name)` the function of
the tree with its decorators and parameters, `names.callers(function)` who calls it. A rule reads `facts.of(Call)`,
`facts.of(Bound)`, `facts.of(Function)`, `facts.of(Class)` where it wants all of them. `near` is `scope.module`.

A file is read only if a word of `words.INTERESTING` stands in it: rules that look for others add theirs there.
"""
