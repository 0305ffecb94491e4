"""The explorer: every state that a few claimants, one slot and a few faults can reach. None is left out, none is drawn.

THEORY OF OPERATION

The simulator plays long histories and may miss a short one; the explorer plays all short ones. It runs the real
`decide`, the real `judge` of a store and the real arithmetic of trust and watch. Around them is a model of a
process: send a request, get the reply, give up waiting and read back, start a job function, renew, finish, release,
crash. In every state every claimant may take its next step, every message may arrive, and time may tick; a claimant
that is paused is one that does not move. Breadth first: the first violation found is one with the fewest steps.

*Why it ends.* Nothing in the protocol depends on absolute numbers, so a state holds only what can still matter:

* Time is whole ticks, relative to now: a lease has `left` ticks, a call is `age` ticks old. What has run out stays so,
  and what is too old to matter grows no older.
* A version is only ever compared with the cell's. So one that a claimant remembers is the LATEST, or an OLD one that
  never returns; the same goes for fences (`Rank`).
* A nonce is only ever compared with one's own: the record in the cell is mine, or it is not.
* Holders, dates and the past of a record are for people: no rule that is used here reads them (`bare`).

So a claimant knows of the others only through the cell, and two on the same terms may change places: a state is the
shelf and the *sorted* claimants. What a claimant does next, and what the store does with its request, is worked out
once, by the real code, and then looked up.

*What is checked.* In every state, that no `Promise` is broken. And in the end, walking backwards from the
closed states: that from every state closed can be reached without another fault, so that nothing is ever stuck.

`configs` is what is explored, `parts` what a state is made of, `claimant` and `store` take the steps, `space` all of
them together, `walk` the exploring. `python -m cronce.testing.explorer` is the command.
"""
