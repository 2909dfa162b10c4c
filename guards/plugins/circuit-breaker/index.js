/**
 * circuit-breaker as a plugin, for the host plane or the preset of an agent.
 *
 * What it remembers of an agent lives in the closure of `apply`: both planes import this same module.
 */
import { appendFileSync } from 'node:fs'
import { CircuitBreaker, configure, GUARD } from './core.js'
import { takeInstruments } from './events.js'

export const name = GUARD
export const inject = ['tools']

export function apply(ctx, config = {}) {
  const { own, write } = takeInstruments(GUARD, config)
  const settings = configure(own)
  const breaker = new CircuitBreaker(settings)
  const agents = new WeakMap()
  let consulted = false
  let failed = false

  const judge = ({ agent, name: tool, arguments: args, callId: call }) => {
    if (!consulted) write({ ev: 'consulted', agent: agent.id, call })
    consulted = true
    if (!agents.has(agent)) agents.set(agent, { state: CircuitBreaker.fresh(), recorded: new Set() })
    const { state, recorded } = agents.get(agent)
    const denial = breaker.beforeCall(state, tool, args)
    if (denial === null) return undefined
    write({ ev: 'deny', agent: agent.id, call, ...denial })
    if (!recorded.has(denial.kind)) {
      recorded.add(denial.kind)
      ctx.logger.warn('tripped for agent %s (%s): %s', agent.id, denial.kind, denial.reason)
      if (settings.incidentLog !== '') {
        recordIncident(settings.incidentLog, denial, tool, agent)
        write({ ev: 'incident', agent: agent.id, call, kind: denial.kind })
      }
    }
    return denial.reason
  }

  ctx.tools.guard((exec) => {
    if (exec.agent === undefined) return undefined
    try {
      return judge(exec)
    } catch (error) {
      if (!failed) ctx.logger.warn('a fault inside the guard, calls go on: %s', error.stack)
      failed = true
      return undefined
    }
  })
  write({ ev: 'arm', config: settings, pid: process.pid })
  ctx.logger.info('armed with %s', JSON.stringify(settings))
}

/** Appends the line of a first denial; a write that fails changes nothing. */
function recordIncident(path, { kind, count, limit }, tool, agent) {
  const known = typeof agent.id === 'string' || typeof agent.id === 'number'
  const who = known ? { agent: agent.id } : { agentKeys: Object.keys(agent) }
  try {
    appendFileSync(path, `${JSON.stringify({ time: new Date().toISOString(), kind, tool, count, limit, ...who })}\n`)
  } catch {
    // The log is a convenience, the denial stands.
  }
}
