/** loop-guard: notices calls that keep giving the same result, says so, and then denies them. Decisions only. */
import { callKey, digest } from './keys.js'
import { integer, refuse, settle } from './settings.js'

export const GUARD = 'loop-guard'
export const KIND = 'identical-result'

const RULES = {
  softThreshold: integer(4, 0, ' (0 = no nudges)'),
  hardThreshold: integer(8, 0, ' (0 = no denial), above softThreshold where both are > 0'),
  resultHashChars: integer(4000, 1),
}

/**
 * Every key with its value in force.
 *
 * @param {unknown} given the guard's own config
 * @throws {Error} one line naming key, value and what is allowed
 */
export function configure(given) {
  const settings = settle(GUARD, given, RULES)
  const { softThreshold: soft, hardThreshold: hard } = settings
  if (hard > 0 && hard <= soft) {
    refuse(GUARD, 'hardThreshold', hard, `${RULES.hardThreshold.allowed} (softThreshold is ${soft})`)
  }
  return settings
}

export class LoopGuard {
  /** @param {ReturnType<typeof configure>} settings */
  constructor(settings) {
    this.settings = settings
  }

  /** The chain of one agent: the last settled call, its result, and how many in a row were equal to both. */
  static fresh() {
    return { key: null, result: null, count: 0 }
  }

  /** @returns {{kind: string, count: number, limit: number, reason: string} | null} null = allowed */
  beforeCall(chain, tool, args) {
    const { hardThreshold: limit } = this.settings
    const { count } = chain
    if (limit === 0 || count < limit || chain.key === null || callKey(tool, args) !== chain.key) return null
    return { kind: KIND, count, limit, reason: denialText(tool, count, limit) }
  }

  /**
   * A call has settled: move the chain. Not to be told of what this guard denied.
   *
   * @param {{error: boolean, message?: string, content: unknown}} result what the model is shown: a text or a list of
   *   blocks, and the message where it is an error
   * @returns {{kind: string, count: number, limit: number, text: string} | null} null = no nudge
   */
  afterResult(chain, tool, args, result) {
    const { softThreshold: limit, hardThreshold: hard, resultHashChars } = this.settings
    const key = callKey(tool, args)
    const shown = resultKey(result, resultHashChars)
    const same = key !== null && shown !== null && key === chain.key && shown === chain.result
    Object.assign(chain, { key, result: shown, count: same ? chain.count + 1 : 1 })
    const { count } = chain
    if (limit === 0 || count < limit || (hard > 0 && count >= hard)) return null
    return { kind: KIND, count, limit, text: nudgeText(tool, count, hard) }
  }

  /** A genuine user message: what was repeated before it does not count any more. */
  userMessage(chain) {
    Object.assign(chain, LoopGuard.fresh())
  }
}

/** A text becomes one block, and a text block has exactly `type` and `text`. */
export function blocksOf(content) {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return (content ?? []).map((block) => (block?.type === 'text' ? { type: 'text', text: block.text } : block))
}

/** A digest of the first `chars` code units of what JSON.stringify writes; null where it can write nothing. */
function resultKey({ error, message, content }, chars) {
  try {
    const blocks = blocksOf(content)
    return digest(JSON.stringify(error ? ['error', message, blocks] : blocks).slice(0, chars))
  } catch {
    return null
  }
}

export function nudgeText(tool, count, hard) {
  const warning = hard > 0 ? ` After ${hard} identical calls in a row this exact call will be denied.` : ''
  return (
    `The last ${count} calls of ${tool} had the same arguments and gave the same result; one more will tell you nothing new.` +
    `${warning} Act on what you know: take a different step, or finish with what you have.`
  )
}

export function denialText(tool, count, limit) {
  return (
    `This call was not run: the last ${count} calls of ${tool} had the same arguments and gave the same result, ` +
    `and the limit is ${limit}. Act on what you know: take a different step, or finish with what you have.`
  )
}
