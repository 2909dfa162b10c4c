/** circuit-breaker: denies a call that was made too often, and every call after too many. Decisions only. */
import { callKey } from './keys.js'
import { flag, integer, names, refuse, settle, text } from './settings.js'

export const GUARD = 'circuit-breaker'

export const DUPLICATE_MESSAGE =
  'This call was not run: it would be call number {count} of {tool} with the same arguments, and the limit is {limit}. ' +
  'Stop repeating it. Work with the results you have, try a different approach, or finish and say what you found.'

export const CAP_MESSAGE =
  'This call was not run: {count} tool calls have been run and the limit is {limit}, so {tool} will not run any more. ' +
  'Stop calling tools and finish with what you know.'

const RULES = {
  enabled: flag(true),
  duplicateLimit: {
    initial: 6,
    allowed: 'an integer >= 2, at most window + 1, or 0 = off',
    accepts: (value) => Number.isInteger(value) && (value === 0 || value >= 2),
  },
  window: integer(200, 1),
  maxCallsPerAgent: integer(300, 0, ' (0 = off)'),
  exempt: names(['todo_write', 'ask_user_question', 'exit_plan_mode']),
  only: names([]),
  ignoreArgs: names(['description', 'explanation', 'reason', 'thought', 'purpose']),
  denyMessage: text(''),
  incidentLog: text(''),
}

/**
 * Every key with its value in force.
 *
 * `denyMessage` "" stands for our own text of each kind; `incidentLog` "" for none.
 *
 * @param {unknown} given the guard's own config
 * @throws {Error} one line naming key, value and what is allowed
 */
export function configure(given) {
  const settings = settle(GUARD, given, RULES)
  if (settings.duplicateLimit > settings.window + 1) {
    refuse(GUARD, 'duplicateLimit', settings.duplicateLimit, `${RULES.duplicateLimit.allowed} (window is ${settings.window})`)
  }
  return settings
}

export class CircuitBreaker {
  /** @param {ReturnType<typeof configure>} settings */
  constructor(settings) {
    this.settings = settings
    this.exempt = new Set(settings.exempt)
    this.only = new Set(settings.only)
    this.ignored = new Set(settings.ignoreArgs)
  }

  /** What is remembered of one agent: how many calls ran, and the keys of the last `window` of them. */
  static fresh() {
    return { executed: 0, ring: [], next: 0, counts: new Map() }
  }

  /** Whether calls of that tool are looked at. */
  guards(tool) {
    if (!this.settings.enabled) return false
    return this.only.size > 0 ? this.only.has(tool) : !this.exempt.has(tool)
  }

  /**
   * Judge a call, and count it where it is allowed.
   *
   * @param {boolean} [runs] false: it is known that something else will deny the call, which then does not count
   * @returns {{kind: 'duplicate' | 'cap', count: number, limit: number, reason: string} | null} null = allowed
   */
  beforeCall(state, tool, args, runs = true) {
    if (!this.guards(tool)) return null
    const { duplicateLimit, maxCallsPerAgent } = this.settings
    if (maxCallsPerAgent > 0 && state.executed >= maxCallsPerAgent) {
      return this.denial('cap', CAP_MESSAGE, tool, state.executed, maxCallsPerAgent)
    }
    const key = duplicateLimit > 0 ? callKey(tool, args, this.ignored) : null
    const count = (state.counts.get(key) ?? 0) + 1
    if (key !== null && count >= duplicateLimit) {
      return this.denial('duplicate', DUPLICATE_MESSAGE, tool, count, duplicateLimit)
    }
    if (runs) {
      state.executed += 1
      if (key !== null) this.remember(state, key)
    }
    return null
  }

  remember(state, key) {
    const { ring, counts } = state
    if (ring.length === this.settings.window) {
      const evicted = ring[state.next]
      const left = counts.get(evicted) - 1
      if (left > 0) counts.set(evicted, left)
      else counts.delete(evicted)
    }
    ring[state.next] = key
    state.next = (state.next + 1) % this.settings.window
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }

  denial(kind, ours, tool, count, limit) {
    const values = { tool, count, limit }
    const template = this.settings.denyMessage === '' ? ours : this.settings.denyMessage
    return { kind, count, limit, reason: template.replace(/\{(tool|count|limit)\}/g, (_, name) => values[name]) }
  }
}
