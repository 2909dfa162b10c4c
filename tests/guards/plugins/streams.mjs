/** Traces played to the plugins' decision cores, by the rules of `tripbench replay`. */

/**
 * @param {{breaker: object, loop: object, refill: object}} cores the modules of the three cores
 * @returns {{replay: Function, configure: Function}} `replay(text, guard, config)` yields {row, reason} for a trace
 *   file's text; `configure(guard, config)` gives every key with its value in force
 */
export function player({ breaker, loop, refill }) {
  /** Each gives the handlers of one agent's events; a handler returns what was decided, or nothing. */
  const STREAMS = {
    [breaker.GUARD]: (config) => {
      const guard = new breaker.CircuitBreaker(breaker.configure(config))
      return () => {
        const state = breaker.CircuitBreaker.fresh()
        return {
          call: (call) => deny(guard.beforeCall(state, call.tool, call.args, call.result?.denied_by == null)),
        }
      }
    },
    [loop.GUARD]: (config) => {
      const guard = new loop.LoopGuard(loop.configure(config))
      return () => {
        const chain = loop.LoopGuard.fresh()
        return {
          user: () => void guard.userMessage(chain),
          call: (call) => deny(guard.beforeCall(chain, call.tool, call.args)),
          result: ({ call, content = [], error = false, denied_by: deniedBy = null }) => {
            if (call.denied) return null
            const blocks = loop.blocksOf(content)
            const texts = blocks.filter((block) => block?.type === 'text').map((block) => block.text)
            const shown = { error: error || deniedBy !== null, message: texts.join(''), content: blocks }
            return as('nudge', guard.afterResult(chain, call.tool, call.args, shown))
          },
        }
      }
    },
    [refill.GUARD]: (config) => {
      const { settings } = refill.configure(config)
      const guard = new refill.CompactionBreaker(settings)
      return () => {
        const state = refill.CompactionBreaker.fresh()
        return {
          step: ({ calls }) => void guard.modelResponse(state, calls ?? 0),
          guard: (event) => {
            if (event.guard === refill.GUARD && event.action === 'reset') guard.reset(state)
          },
          compaction: ({ trigger = 'pressure', outcome }) => {
            if (trigger === 'manual') {
              if (outcome === 'committed') guard.reset(state)
              return null
            }
            const { projected, refusal } = guard.gate(state)
            if (refusal === null && outcome === 'committed') guard.commit(state, projected)
            return as('refuse', refusal)
          },
        }
      }
    },
  }

  const CONFIGURE = {
    [breaker.GUARD]: breaker.configure,
    [loop.GUARD]: loop.configure,
    [refill.GUARD]: (config) => {
      const { settings, base } = refill.configure(config)
      return { ...settings, ...base }
    },
  }

  function as(action, decided) {
    return decided === null ? null : { action, ...decided, reason: decided.reason ?? decided.text }
  }

  const deny = (decided) => as('deny', decided)

  /** The decisions of one trace, in its order. */
  function* replay(text, name, config) {
    const lines = text.split('\n').filter((line) => line.trim() !== '')
    const { episode } = JSON.parse(lines[0])
    const events = streams(lines.slice(1).map((line) => JSON.parse(line)))
    const begin = STREAMS[name](config)
    const agents = new Map()
    for (const event of events) {
      if (!agents.has(event.agent)) agents.set(event.agent, begin())
      const decided = agents.get(event.agent)[event.type]?.(event)
      if (!decided) continue
      const call = event.type === 'result' ? event.call : event
      call.denied = decided.action === 'deny'
      const { action, kind, count, limit, reason } = decided
      const row = { episode, agent: event.agent, guard: name, action, kind, call: call.id ?? null, index: call.index, count, limit }
      yield { row, reason }
    }
  }

  return { replay, configure: (name, config) => CONFIGURE[name](config) }
}

/** Events up to each agent's end, with defaults, positions, and results joined to the calls that they belong to. */
function streams(raw) {
  const agents = new Map()
  const kept = []
  for (const event of raw) {
    const agent = (event.agent ??= 'root')
    if (!agents.has(agent)) agents.set(agent, { ended: false, calls: 0, compactions: 0, open: [] })
    const stream = agents.get(agent)
    if (stream.ended) continue
    if (event.type === 'call') {
      event.index = ++stream.calls
      stream.open.push(event)
    } else if (event.type === 'compaction') {
      event.index = ++stream.compactions
    } else if (event.type === 'result') {
      const at = stream.open.findLastIndex((call) => call.id === event.id)
      if (at < 0) continue
      const [call] = stream.open.splice(at, 1)
      call.result = event
      event.call = call
    } else if (event.type === 'end') {
      stream.ended = true
    }
    kept.push(event)
  }
  return kept
}
