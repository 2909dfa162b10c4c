/**
 * compaction-breaker as a plugin: the base compaction engine, whose attempts pass a gate.
 *
 * An attempt is one `compactIfNeeded` that reaches `compactRegion`. The gate comes once an attempt, before its first
 * summary; in the variant "upstream-literal" it comes at the entry of every `compactIfNeeded`.
 */
import { BasicCompactionEngine } from '@deepseek-ai/dsh-compaction-basic'
import { BASE_KEYS, configure, GUARD, REASON } from './core.js'
import { takeInstruments } from './events.js'
import { Watch } from './watch.js'

export default class CompactionBreakerEngine extends BasicCompactionEngine {
  /** What the harness calls it in its log. */
  static name = GUARD
  // The base engine's schema would refuse our keys; `configure` checks them all.
  static Config = undefined

  constructor(ctx, config = {}) {
    const { own, write } = takeInstruments(GUARD, config)
    const known = Object.keys(BasicCompactionEngine.Config?.dict ?? {})
    const { settings, base } = configure(own, [...new Set([...BASE_KEYS, ...known])])
    super(ctx, base)
    this.watch = new Watch(ctx, settings, write)
    write({ ev: 'arm', config: { ...settings, ...base }, pid: process.pid })
    ctx.logger.info('armed with %s', JSON.stringify({ ...settings, ...base }))
  }

  async compactIfNeeded(agent, trigger, signal) {
    const attempt = this.watch.enter(agent, trigger)
    if (attempt === undefined) return super.compactIfNeeded(agent, trigger, signal)
    const outcome = {}
    try {
      if (this.watch.literal) this.pass(attempt)
      outcome.result = await super.compactIfNeeded(agent, trigger, signal)
      return outcome.result
    } catch (error) {
      outcome.error = error
      throw error
    } finally {
      this.watch.leave(attempt, outcome)
    }
  }

  async compactRegion(start, end, agent, signal) {
    const attempt = this.watch.current(agent.session)
    if (attempt !== undefined) {
      this.pass(attempt)
      this.watch.begin(attempt)
    }
    return super.compactRegion(start, end, agent, signal)
  }

  /** By hand, and never gated. */
  compactNow(agent, signal, sourceCommandId) {
    const attempt = this.watch.enterManual(agent)
    const leave = (outcome) => attempt !== undefined && this.watch.leave(attempt, outcome)
    let running
    try {
      running = this.watch.atOnce(attempt, () => super.compactNow(agent, signal, sourceCommandId))
    } catch (error) {
      leave({ error })
      throw error
    }
    return running.then(
      (result) => {
        leave({ result })
        return result
      },
      (error) => {
        leave({ error })
        throw error
      },
    )
  }

  // The base engine asks for these when it has found something to summarise, before it writes anything.
  regionDependencies() {
    this.watch.beginManual()
    return super.regionDependencies()
  }

  async summarize(input, agent, signal) {
    const attempt = this.watch.current(agent.session)
    if (attempt !== undefined) this.watch.begin(attempt)
    return super.summarize(input, agent, signal)
  }

  /** Throws where the gate refuses. */
  pass(attempt) {
    const refusal = this.watch.gate(attempt)
    if (refusal !== null) throw Object.assign(new Error(refusal.reason), { reason: REASON })
  }
}
