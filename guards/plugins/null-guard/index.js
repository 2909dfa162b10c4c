/** A guard that is asked about every call, sees every result, and never acts. */
import { appendFileSync } from 'node:fs'

export const name = 'tripbench-null-guard'
export const inject = ['tools']

export function apply(ctx, { eventLog = '', plane = 'host' } = {}) {
  const write = (line) => eventLog && appendFileSync(eventLog, JSON.stringify({ ...line, guard: 'null', plane }) + '\n')
  let consulted = false
  write({ ev: 'arm', config: {}, pid: process.pid })
  ctx.tools.guard((exec) => {
    if (consulted) return undefined
    consulted = true
    write({ ev: 'consulted', agent: exec.agent?.id ?? null, call: exec.callId })
    return undefined
  })
  ctx.on('tools/post-execute', (_exec, _result, next) => next())
}
