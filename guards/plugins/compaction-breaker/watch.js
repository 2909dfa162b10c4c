/**
 * Follows the sessions of one engine: the clock, the attempts, the gate, and what makes a trip visible.
 *
 * What is remembered of a session is held by the module: an engine in the host plane and one in a preset share one latch.
 */
import { CompactionBreaker, GUARD, sectionText } from './core.js'

const SECTION = 'compaction-breaker:tripped'
const TRIGGERS = { pressure: 'pressure', 'context-overflow': 'overflow' }
const USAGE = 'Usage: /compaction-breaker status | reset'

/** session -> {state, seen: seq of the last model response counted, attempt: the one under way or null, announced} */
const sessions = new WeakMap()

export class Watch {
  constructor(ctx, settings, write) {
    this.breaker = new CompactionBreaker(settings)
    this.literal = settings.variant === 'upstream-literal'
    this.logger = ctx.logger
    this.write = write
    this.consulted = false
    this.failed = false
    /** The attempt of `atOnce`. */
    this.manual = undefined
    ctx.on('session/event', (session, event) => void this.guarded(() => this.observe(session, event)))
    if (settings.announceInPrompt) ctx.inject(['systemPrompt'], (child) => void child.systemPrompt.section(this.section()))
    ctx.inject(['commands'], (child) => void child.commands.register(this.command()))
  }

  /** The base engine is asked whether to compact. Returns what to pass to the other methods; see `gate` for a refusal. */
  enter(agent, trigger) {
    return this.guarded(() => {
      if (!this.consulted) this.write({ ev: 'consulted', agent: agent.id, call: null })
      this.consulted = true
      return this.open(agent, TRIGGERS[trigger] ?? trigger)
    })
  }

  /** A compaction by hand begins. */
  enterManual(agent) {
    return this.guarded(() => this.open(agent, 'manual'))
  }

  /** Runs the part of a compaction by hand that comes before its first wait: one session at a time is in it. */
  atOnce(attempt, work) {
    this.manual = attempt
    try {
      return work()
    } finally {
      this.manual = undefined
    }
  }

  beginManual() {
    if (this.manual !== undefined) this.begin(this.manual)
  }

  open(agent, trigger) {
    const record = recordOf(agent.session)
    const attempt = { agent, trigger, record, outer: record.attempt, verdict: null, begun: false, generation: null }
    record.attempt = attempt
    return attempt
  }

  /** The attempt under way in that session, if any. */
  current(session) {
    return sessions.get(session)?.attempt ?? undefined
  }

  /** Judges an attempt, once. Returns the refusal or null. */
  gate(attempt) {
    return this.guarded(() => {
      if (attempt.trigger === 'manual' || attempt.verdict !== null) return null
      const { agent, record } = attempt
      const { tripped } = record.state
      attempt.verdict = this.breaker.gate(record.state)
      const { refusal } = attempt.verdict
      if (refusal === null) return null
      this.begin(attempt)
      this.write({ ev: 'refuse', agent: agent.id, call: null, ...refusal })
      if (!tripped) this.logger.warn('tripped in session %s: %s', agent.id, refusal.reason)
      return refusal
    }) ?? null
  }

  /** The base engine has decided to summarise. */
  begin(attempt) {
    this.guarded(() => {
      if (attempt.begun) return
      const { agent, trigger, verdict } = attempt
      attempt.begun = true
      attempt.generation = agent.session.surface.replaceGeneration
      const refused = Boolean(verdict?.refusal)
      this.write({ ev: 'attempt', agent: agent.id, trigger, verdict: refused ? 'refuse' : 'allow', rapid: verdict?.rapid ?? false })
    })
  }

  /** The base engine is done. `result` is what it returned, `error` what it threw. */
  leave(attempt, { result = null, error = null }) {
    this.guarded(() => {
      const { agent, trigger, record, verdict } = attempt
      record.attempt = attempt.outer
      if (this.literal && result !== null && verdict !== null) this.breaker.commit(record.state, verdict.projected)
      if (!attempt.begun) return
      const replaced = agent.session.surface.replaceGeneration > attempt.generation
      if (replaced && !this.literal && verdict !== null) this.breaker.commit(record.state, verdict.projected)
      this.write({ ev: 'settled', agent: agent.id, trigger, replaced, error: error === null ? null : String(error?.message ?? error) })
      if (replaced && trigger === 'manual') this.reset(agent, 'manual')
    })
  }

  reset(agent, kind) {
    const record = recordOf(agent.session)
    this.breaker.reset(record.state)
    record.announced = false
    this.write({ ev: 'reset', agent: agent.id, call: null, kind })
  }

  /** Moves the clock, once a model response however many engines hear of it. */
  observe(session, event) {
    if (event.type !== 'assistant/message') return
    const record = recordOf(session)
    if (event.seq <= record.seen) return
    record.seen = event.seq
    const calls = event.data.message.content.filter((block) => block.type === 'tool-call')
    this.breaker.modelResponse(record.state, calls.length)
  }

  /** Empty, and so not shown, unless tripped. That of a preset's engine hides that of the host's: there is one. */
  section() {
    const words = sectionText(this.breaker.settings.maxConsecutiveRapidRefills)
    const text = ({ agent }) => {
      const record = agent === undefined ? undefined : sessions.get(agent.session)
      if (!record?.state.tripped) return ''
      if (!record.announced) this.write({ ev: 'announce', agent: agent.id, call: null, kind: SECTION, reason: words })
      record.announced = true
      return words
    }
    return { name: SECTION, order: 9950, text, interpolate: false }
  }

  command() {
    const handler = ({ agent, rawInput }) => {
      const asked = rawInput.trim()
      if (asked !== 'status' && asked !== 'reset') return { kind: 'error', text: USAGE }
      if (asked === 'reset') this.reset(agent, 'command')
      return { kind: 'success', text: this.breaker.status(recordOf(agent.session).state) }
    }
    const description = 'Report on the breaker of automatic compaction, or reset it'
    return { name: GUARD, description, input: { hint: 'status | reset' }, handler }
  }

  /** A fault in here never blocks a compaction. */
  guarded(work) {
    try {
      return work()
    } catch (error) {
      if (!this.failed) this.logger.warn('a fault inside the guard, compaction goes on: %s', error.stack)
      this.failed = true
      return undefined
    }
  }
}

function recordOf(session) {
  if (!sessions.has(session)) sessions.set(session, { state: CompactionBreaker.fresh(), seen: -1, attempt: null, announced: false })
  return sessions.get(session)
}
