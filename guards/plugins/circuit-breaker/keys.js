/** Call keys: equal for two calls exactly where tool and arguments are the same JSON. */
import { createHash } from 'node:crypto'

const NONE = new Set()

/**
 * The key of a call: a digest of the tool's name and the canonical text of its arguments.
 *
 * @param {string} tool exact name
 * @param {unknown} args undefined is taken as `{}`; a string stays a string and is never parsed
 * @param {Set<string>} [ignored] names left out at the top level, where args are an object
 * @returns {string | null} null where args are no JSON value
 */
export function callKey(tool, args, ignored = NONE) {
  const text = canonical(args === undefined ? {} : args, ignored)
  return text === null ? null : digest(`[${JSON.stringify(tool)},${text}]`)
}

/** SHA-256 over UTF-16 code units: a text may be cut inside a surrogate pair. */
export function digest(text) {
  return createHash('sha256').update(text, 'utf16le').digest('base64')
}

/**
 * The text that JSON.stringify would give if the names of every object stood in the order of their code units.
 *
 * It keeps its own stack, so that no depth overflows the engine's.
 *
 * @param {unknown} value
 * @param {Set<string>} [ignored] names left out of the outermost object
 * @returns {string | null} null where something in it is no JSON value (undefined, a function, a bigint, a symbol, an
 *   object that is neither a plain one nor an array, a hole in an array, a cycle)
 */
export function canonical(value, ignored = NONE) {
  const parts = []
  const frames = []
  const open = new Set()
  const begin = (item) => {
    if (item === null || typeof item === 'string' || typeof item === 'number' || typeof item === 'boolean') {
      parts.push(JSON.stringify(item))
      return true
    }
    if (typeof item !== 'object' || open.has(item)) return false
    if (!Array.isArray(item) && !isPlain(item)) return false
    open.add(item)
    frames.push({ item, names: Array.isArray(item) ? null : namesOf(item, frames.length === 0 ? ignored : NONE), at: 0 })
    parts.push(Array.isArray(item) ? '[' : '{')
    return true
  }
  if (!begin(value)) return null
  while (frames.length > 0) {
    const frame = frames[frames.length - 1]
    const { item, names } = frame
    if (frame.at === (names ?? item).length) {
      parts.push(names === null ? ']' : '}')
      open.delete(item)
      frames.pop()
      continue
    }
    if (frame.at > 0) parts.push(',')
    const name = names === null ? frame.at : names[frame.at]
    frame.at += 1
    if (names !== null) parts.push(JSON.stringify(name), ':')
    if (!begin(item[name])) return null
  }
  return parts.join('')
}

function namesOf(record, ignored) {
  // The default order of sort() is that of UTF-16 code units.
  return Object.keys(record).filter((name) => !ignored.has(name)).sort()
}

/** Whether it is an object as JSON.parse makes it, in this realm or another. */
function isPlain(item) {
  const prototype = Object.getPrototypeOf(item)
  return prototype === null || (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf'))
}
