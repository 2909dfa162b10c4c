/** Configuration, checked when the plugin is loaded. */

/**
 * Fill in what is absent and refuse what is wrong.
 *
 * @param {string} guard its name, for the error's text
 * @param {unknown} given the row's config; undefined is taken as `{}`
 * @param {Record<string, {initial: unknown, allowed: string, accepts: (value: unknown) => boolean}>} rules one a key
 * @returns {Record<string, unknown>} every key of `rules`
 * @throws {Error} one line naming key, value and what is allowed
 */
export function settle(guard, given = {}, rules) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new Error(`${guard}: config is ${show(given)}; allowed: a mapping of keys to values`)
  }
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(rules, key)) {
      throw new Error(`${guard}: unknown key "${key}" (value ${show(given[key])}); allowed keys: ${Object.keys(rules).join(', ')}`)
    }
  }
  const settings = {}
  for (const [key, { initial, allowed, accepts }] of Object.entries(rules)) {
    const value = Object.hasOwn(given, key) && given[key] !== undefined ? given[key] : initial
    if (!accepts(value)) refuse(guard, key, value, allowed)
    settings[key] = value
  }
  return settings
}

/** @throws {Error} one line naming key, value and what is allowed */
export function refuse(guard, key, value, allowed) {
  throw new Error(`${guard}: ${key} is ${show(value)}; allowed: ${allowed}`)
}

/** A rule for an integer of at least `least`, with `note` behind it in the error's text. */
export function integer(initial, least, note = '') {
  const accepts = (value) => Number.isInteger(value) && value >= least
  return { initial, allowed: `an integer >= ${least}${note}`, accepts }
}

/** A rule for true or false. */
export function flag(initial) {
  return { initial, allowed: 'true or false', accepts: (value) => typeof value === 'boolean' }
}

/** A rule for any text. */
export function text(initial) {
  return { initial, allowed: 'a text', accepts: (value) => typeof value === 'string' }
}

/** A rule for one of a few texts. */
export function choice(initial, ...options) {
  const allowed = options.map((each) => `"${each}"`).join(' or ')
  return { initial, allowed, accepts: (value) => options.includes(value) }
}

/** A rule for a list of texts. */
export function names(initial) {
  const accepts = (value) => Array.isArray(value) && value.every((each) => typeof each === 'string')
  return { initial, allowed: 'a list of texts', accepts }
}

function show(value) {
  return JSON.stringify(value) ?? String(value)
}
