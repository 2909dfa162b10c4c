/**
 * Looks on while guards are tested: writes the harness's log lines to `log`, and in the n-th idle moment of an agent
 * runs the n-th list of `commands`, whose answers go to `log` too. Into the guards' `eventLog` it writes {ev: "start"}
 * where the harness begins to summarise.
 */
import { appendFileSync } from 'node:fs'

export const name = 'guard-probe'
export const inject = ['agents']

export function apply(ctx, { log, eventLog, commands = [] }) {
  const write = (line) => appendFileSync(log, `${JSON.stringify(line)}\n`)
  ctx.logger.exporter({
    levels: { default: 3 },
    export: ({ name: from, type, args }) => {
      let rest = args.slice(1)
      write({ from, type, text: String(args[0]).replaceAll('%s', () => rest.shift()) })
    },
  })
  ctx.on('session/event', (_session, { type }) => {
    if (type === 'compaction/start') appendFileSync(eventLog, '{"ev":"start"}\n')
  })
  let idle = 0
  ctx.on('agent/status', ({ agent, status }) => {
    if (status !== 'idle') return
    const lines = commands[idle] ?? []
    idle += 1
    void (async () => {
      for (const line of lines) {
        const done = await ctx.get('commands').execute(agent, line, [], new AbortController().signal)
        write({ from: 'command', type: line, text: done?.result.text ?? 'no such command' })
      }
    })()
  })
}
