/**
 * The event log: an instrument of a measurement, nothing of it reaches the model.
 *
 * Two keys of a row's config belong to it and not to the guard: `eventLog`, the path of a file that gets one JSON
 * object a line ("" = none), and `plane`, "host" or "agent", which is written into each line.
 */
import { appendFileSync } from 'node:fs'
import { choice, settle, text } from './settings.js'

const RULES = { eventLog: text(''), plane: choice('host', 'host', 'agent') }

/**
 * Take the two keys out of a row's config.
 *
 * @param {string} guard its name, for lines and errors
 * @param {unknown} config the row's config as it came
 * @returns {{own: unknown, write: (line: object) => void}} `own` is what is left; `write` appends and never throws
 * @throws {Error} one line naming key, value and what is allowed
 */
export function takeInstruments(guard, config) {
  if (typeof config !== 'object' || config === null || Array.isArray(config)) return { own: config, write: () => {} }
  const { eventLog, plane, ...own } = config
  const settings = settle(guard, { eventLog, plane }, RULES)
  const write = ({ ev, ...fields }) => {
    if (settings.eventLog === '') return
    try {
      appendFileSync(settings.eventLog, `${JSON.stringify({ ev, guard, plane: settings.plane, ...fields })}\n`)
    } catch {
      // A full disk must not change what the harness does.
    }
  }
  return { own, write }
}
