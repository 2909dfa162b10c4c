/**
 * loop-guard as a plugin, for the host plane or the preset of an agent.
 *
 * What it remembers of an agent lives in the closure of `apply`: both planes import this same module.
 */
import { createUserMessage } from '@deepseek-ai/dsh-llm'
import { configure, GUARD, LoopGuard } from './core.js'
import { takeInstruments } from './events.js'

export const name = GUARD
export const inject = ['tools']

export function apply(ctx, config = {}) {
  const { own, write } = takeInstruments(GUARD, config)
  const settings = configure(own)
  const guard = new LoopGuard(settings)
  const chains = new WeakMap()
  /** Calls that were denied here: their results are none to the chain. */
  const denied = new WeakSet()
  /** Agents whose chain stands at a denial: a trip is said once, until the chain moves. */
  const tripped = new WeakSet()
  let consulted = false
  let failed = false

  const chainOf = (agent) => {
    if (!chains.has(agent)) chains.set(agent, LoopGuard.fresh())
    return chains.get(agent)
  }

  const judge = (exec) => {
    const { agent, callId: call } = exec
    if (!consulted) write({ ev: 'consulted', agent: agent.id, call })
    consulted = true
    const denial = guard.beforeCall(chainOf(agent), exec.name, exec.arguments)
    if (denial === null) return undefined
    denied.add(exec)
    if (!tripped.has(agent)) ctx.logger.warn('tripped for agent %s: %s', agent.id, denial.reason)
    tripped.add(agent)
    write({ ev: 'deny', agent: agent.id, call, ...denial })
    return denial.reason
  }

  const observe = (exec, shown) => {
    const { agent, callId: call } = exec
    if (agent === undefined || denied.has(exec)) return undefined
    tripped.delete(agent)
    const nudge = guard.afterResult(chainOf(agent), exec.name, exec.arguments, shown)
    if (nudge === null) return undefined
    const { kind, count, limit, text } = nudge
    write({ ev: 'nudge', agent: agent.id, call, kind, count, limit, reason: text })
    return createUserMessage({
      content: [{ type: 'text', text }],
      source: { kind: GUARD, form: 'notice', summary: `${exec.name} × ${count}` },
    })
  }

  /** A fault of the guard never blocks real work. */
  const guarded = (work) => {
    try {
      return work()
    } catch (error) {
      if (!failed) ctx.logger.warn('a fault inside the guard, calls go on: %s', error.stack)
      failed = true
      return undefined
    }
  }

  ctx.tools.guard((exec) => (exec.agent === undefined ? undefined : guarded(() => judge(exec))))

  ctx.on('tools/post-execute', async (exec, result, next) => {
    const decision = await next()
    const notice = guarded(() => observe(exec, shownBy(decision, result)))
    if (notice === undefined) return decision
    return { ...decision, additionalContexts: [notice, ...(decision.additionalContexts ?? [])] }
  })

  ctx.on('agent/pre-step', ({ agent, messages }, next) => {
    guarded(() => {
      if (!messages.some((message) => message.source?.kind === 'user')) return
      guard.userMessage(chainOf(agent))
      tripped.delete(agent)
    })
    return next()
  })

  write({ ev: 'arm', config: settings, pid: process.pid })
  ctx.logger.info('armed with %s', JSON.stringify(settings))
}

/** What the model will be shown, as far as the listeners behind this one have changed it. */
function shownBy(decision, result) {
  if (decision.kind === 'block') {
    const texts = decision.feedback.filter((block) => block.type === 'text').map((block) => block.text)
    return { error: true, message: texts.join(''), content: decision.feedback }
  }
  return { error: result.isError === true, message: result.error?.message, content: decision.content ?? result.content }
}
