/**
 * Writes what is logged in the process to the event log (config `eventLog`), and changes nothing else.
 *
 * Lines: {ev: "log", row, name, level, text}. `row` is the id of the row whose plugin said it, null where it is none.
 */
import { appendFileSync } from 'node:fs'
import { format } from 'node:util'

export const name = 'tripbench-witness'
export const inject = ['loader']

export function apply(ctx, { eventLog }) {
  const heard = ({ type: level, name, args, fiber }) => {
    const row = ctx.loader.locate(fiber?.deref())?.split(':').at(-1) ?? null
    appendFileSync(eventLog, JSON.stringify({ ev: 'log', row, name, level, text: format(...args) }) + '\n')
  }
  // What was said before this was mounted is still there.
  for (const message of ctx.logger.buffer) heard(message)
  ctx.logger.exporter({ levels: { default: 3 }, export: heard })
}
