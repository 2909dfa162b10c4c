/** compaction-breaker: stops compacting a context that fills up again at once. Decisions only. */
import { choice, flag, integer, settle } from './settings.js'

export const GUARD = 'compaction-breaker'
export const REASON = 'compact_rapid_refill_breaker'

/** Keys of the base engine, which checks their values itself. */
export const BASE_KEYS = [
  ...['thresholdRatio', 'retainRatio', 'retainTokens', 'headroomTokens', 'summarizationProvider', 'summarizationModel'],
  ...['maxTokens', 'compactionRetries', 'maxOverflowRetries', 'modelPolicies', 'auto'],
]

/** `variant` is internal, see `configure`. */
const RULES = {
  toolTurnThreshold: integer(2, 1),
  maxConsecutiveRapidRefills: integer(3, 1),
  announceInPrompt: flag(true),
  variant: choice('ours', 'ours', 'upstream-literal'),
}

/**
 * Every own key with its value in force, and the base engine's keys as they came.
 *
 * `variant` is an internal option of ours: "upstream-literal" gates at the entry of every `compactIfNeeded` and commits
 * where that returns something, which is to be measured beside "ours".
 *
 * @param {unknown} given the row's config without the instruments
 * @param {string[]} [baseKeys] what the base engine knows
 * @returns {{settings: Record<string, unknown>, base: Record<string, unknown>}}
 * @throws {Error} one line naming key, value and what is allowed
 */
export function configure(given = {}, baseKeys = BASE_KEYS) {
  const passed = Object.fromEntries(baseKeys.map((key) => [key, { allowed: '', accepts: () => true }]))
  const all = settle(GUARD, given, { ...RULES, ...passed })
  const of = (keys) => Object.fromEntries(keys.filter((key) => all[key] !== undefined).map((key) => [key, all[key]]))
  return { settings: of(Object.keys(RULES)), base: of(baseKeys) }
}

export class CompactionBreaker {
  /** @param {{toolTurnThreshold: number, maxConsecutiveRapidRefills: number}} settings */
  constructor(settings) {
    this.settings = settings
  }

  /** One session: its tool turns, that of the last committed compaction (null = none), and the latch. */
  static fresh() {
    return { turns: 0, mark: null, rapid: 0, tripped: false, refused: 0 }
  }

  /** A model response has come; one that carries a tool call, denied or not, is a tool turn. */
  modelResponse(state, calls) {
    if (calls > 0) state.turns += 1
  }

  /**
   * Judge an automatic attempt before its first summary.
   *
   * @returns {{rapid: boolean, projected: number, refusal: null | {kind: 'rapid-refill' | 'latched', count: number,
   *   limit: number, reason: string}}} refusal null = allowed; `projected` is the rapid count once it is committed
   */
  gate(state) {
    const { toolTurnThreshold, maxConsecutiveRapidRefills: limit } = this.settings
    const rapid = state.mark !== null && state.turns - state.mark < toolTurnThreshold
    const projected = rapid ? state.rapid + 1 : 0
    if (!state.tripped && projected < limit) return { rapid, projected, refusal: null }
    const kind = state.tripped ? 'latched' : 'rapid-refill'
    state.tripped = true
    state.refused += 1
    return { rapid, projected, refusal: { kind, count: state.rapid, limit, reason: refusalText(limit) } }
  }

  /** The surface was replaced during an attempt that the gate had allowed. */
  commit(state, projected) {
    state.rapid = projected
    state.mark = state.turns
  }

  /** A committed manual compaction, or the reset command, tripped or not. */
  reset(state) {
    Object.assign(state, { rapid: 0, tripped: false, refused: 0, mark: state.turns })
  }

  /** What the status command says. */
  status(state) {
    const { toolTurnThreshold, maxConsecutiveRapidRefills: limit } = this.settings
    const since = state.mark === null ? 'no compaction yet' : `tool turns since the last compaction: ${state.turns - state.mark}`
    return (
      `${state.tripped ? 'tripped' : 'not tripped'}; attempts refused: ${state.refused}; rapid refills in a row: ${state.rapid} ` +
      `(limit ${limit}, rapid is fewer than ${toolTurnThreshold} tool turns); ${since}`
    )
  }
}

export function refusalText(limit) {
  return (
    `Automatic compaction has stopped: the context was full again right after compaction, ${limit} times in a row. ` +
    'Read the file or run the command in smaller chunks, start a new task, or compact by hand. ' +
    '"/compaction-breaker reset" allows automatic compaction again.'
  )
}

export function sectionText(limit) {
  return (
    `Automatic compaction of this conversation has stopped, because the context was full again right after compaction, ${limit} times in a row. ` +
    'Keep what you take in small: read files and run commands in smaller chunks. ' +
    'If the task can not be done that way, say so and stop: the user can start a new task, compact by hand, or enter "/compaction-breaker reset".'
  )
}
