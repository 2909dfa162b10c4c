/**
 * Who goes on, where an episode has subagents: one agent moves at a time, in an order that is the same in every run.
 *
 * The harness runs subagents side by side, and who comes first is chance. Nothing of that chance may reach a prompt or a
 * trace, so every agent waits before each step (`park`) until no other moves, and then the first by this rule goes on:
 *
 * - an agent with a subagent below it that is not settled waits for it: the harness calls every subagent a background one, and a
 *   parent's step that waited before its subagents' first sees their reports in the step after it;
 * - of the others the one with the fewest steps, and of these the one that was started first, by the order of the calls
 *   that started them: subagents of one step take turns.
 *
 * An agent moves from its creation to its first wait, from its release to its next wait, and a subagent from its last
 * step until its parent was told that it is settled. All ids are session ids.
 */
export class Turns {
  #agents = new Map()
  #placed = 0

  /** An agent was created, or is there again; `parent` null for a root. */
  created(id, parent) {
    const known = this.#agents.get(id)
    // Behind all whose call is known, until its own is.
    const place = Number.MAX_SAFE_INTEGER / 2 + this.#agents.size
    if (known === undefined) this.#agents.set(id, { parent, steps: 0, place, state: 'moves', go: null })
    else known.state = 'moves'
  }

  /** The next call, in the order of the calls, that started an agent. */
  started(id) {
    const agent = this.#agents.get(id)
    if (agent !== undefined) agent.place = this.#placed++
  }

  /** Resolves when it is the agent's turn to take a step, or `signal` is aborted. */
  park(id, signal) {
    if (!this.#agents.has(id)) this.created(id, null)
    const agent = this.#agents.get(id)
    return new Promise((resolve) => {
      const go = () => {
        signal.removeEventListener('abort', go)
        agent.state = 'moves'
        agent.go = null
        resolve()
      }
      agent.state = 'waits'
      agent.go = go
      if (signal.aborted) go()
      else signal.addEventListener('abort', go)
      this.#next()
    })
  }

  /** A turn of the agent ended: a root is at rest, a subagent still has to be settled. */
  ended(id) {
    const agent = this.#agents.get(id)
    if (agent?.parent === null) this.#rest(agent)
  }

  /** The parent was told that the subagent is settled, or nobody ever will be. */
  settled(id) {
    const agent = this.#agents.get(id)
    if (agent !== undefined && agent.state !== 'waits') this.#rest(agent)
  }

  #rest(agent) {
    agent.state = 'rests'
    this.#next()
  }

  #next() {
    const agents = [...this.#agents.entries()]
    if (agents.some(([, agent]) => agent.state === 'moves')) return
    const busy = new Set()
    for (const [, agent] of agents) {
      if (agent.state !== 'waits') continue
      for (let above = agent.parent; above != null; above = this.#agents.get(above)?.parent) busy.add(above)
    }
    const free = agents.filter(([id, agent]) => agent.state === 'waits' && !busy.has(id)).map(([, agent]) => agent)
    free.sort((one, other) => one.steps - other.steps || one.place - other.place)
    if (free.length === 0) return
    free[0].steps += 1
    free[0].go()
  }
}
