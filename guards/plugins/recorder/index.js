/**
 * The recorder: mounted in both planes of every arm, it is no guard and changes nothing that the model sees.
 *
 * It writes every session event into the episode's event log, the same file that the guards append to, so that one
 * file holds one total order. Before each step it asks the runner (config `control`, an address) whether to go on; a
 * refusal, or a runner that is gone, ends the turn there. With the first question of each agent goes what is really
 * live: the host's rows, the preset's rows, and the preset that the agent has joined. Where the scenario has subagents
 * (config `subagents`) it lets one agent move at a time (turns.js).
 *
 * Lines: {ev: "event", agent, seq, type, data, surfaceOp}, {ev: "agent", agent, parent}, {ev: "mark", agent, plane,
 * turn, step}, {ev: "import", package, error}, {ev: "meter", agent, at, tokens}, {ev: "control", agent, turn, step, go, why}, {ev: "up", plane, pid},
 * {ev: "spawn", agent, call, child, purpose}: the agent's call started the child, in the order of the calls.
 * `ms` is milliseconds of the process's monotonic clock.
 */
import { appendFileSync } from 'node:fs'
import { Turns } from './turns.js'

export const name = 'tripbench-recorder'
export const inject = ['agents', 'loader', 'tokenMeter']

const STATES = ['pending', 'loading', 'active', 'failed', 'disposed', 'unloading']
const PATIENCE_MS = 60_000
const STARTED = /^started subagent (\S+)$/
/** How long after its end the parent of a subagent is told of it at the latest. */
const SETTLED_MS = 5_000
/** Decisions of all recorders of this process, by agent and step: the planes must not be answered differently. */
const decisions = new WeakMap()
const attested = new WeakSet()
/** The turns of this process's agents, in both planes; null where the scenario has no subagents. */
let turns = null
/** Their content stands in other events. */
const REPEATED = new Set(['agent/inbox/spliced', 'session/title', 'session-log-deepseek/delivery-accepted'])

export function apply(ctx, { eventLog, control, plane, probe = [], calls = false, subagents = false }) {
  const write = (line) => appendFileSync(eventLog, JSON.stringify({ ...line, ms: performance.now() }) + '\n')
  write({ ev: 'up', plane, pid: process.pid })
  ctx.on('agent/pre-step', async ({ agent, turn, step, signal }, next) => {
    write({ ev: 'mark', agent: agent.id, plane, turn, step })
    const decision = await decide(ctx, { agent, turn, step, signal, control, write })
    return decision.go ? next() : { kind: 'reject' }
  }, { prepend: true })
  if (plane !== 'host') return
  if (calls) {
    // Where the harness' own tools work on the scenario's files, the runner hears of each call before and after it.
    const tell = async (at, exec, rest) => {
      const answer = await post(control, { at, agent: exec.agent?.id, call: exec.callId, tool: exec.name, ...rest }, exec.signal)
      if (answer.error !== undefined) write({ ev: 'control', agent: exec.agent?.id, call: exec.callId, ...answer })
    }
    ctx.on('tools/pre-execute', async (exec, next) => {
      await tell('pre-call', exec, {})
      return next()
    }, { prepend: true })
    ctx.on('tools/post-execute', async (exec, result, next) => {
      const text = (result.content ?? []).map((block) => block.text ?? '').join('')
      await tell('post-call', exec, { args: exec.arguments, text })
      return next()
    }, { prepend: true })
  }
  if (subagents) follow(ctx, write)
  // A preset says only that a row of it never started; why is told by importing the package from here.
  for (const name of probe) {
    import(name).catch((error) => write({ ev: 'import', package: name, error: `failed to import: ${error.message}` }))
  }
  ctx.on('agent/created', ({ agent }) => {
    const parent = ctx.agents.roots().includes(agent) ? null : (agent.session.header?.parentSession ?? '')
    write({ ev: 'agent', agent: agent.id, parent })
    turns?.created(agent.id, parent)
  }, { prepend: true })
  ctx.on('session/event', (session, event) => {
    if (REPEATED.has(event.type)) return
    write({ ev: 'event', agent: session.id, seq: event.seq, type: event.type, data: slim(event), surfaceOp: event.surfaceOp })
    if (event.type === 'compaction/start' || event.type === 'compaction/end') {
      write({ ev: 'meter', agent: session.id, at: event.type, tokens: ctx.tokenMeter.measure(session).totalTokens })
    }
  })
}

/** Lets the agents take turns, and writes which call started which. */
function follow(ctx, write) {
  turns = new Turns()
  const leaving = new Map()
  ctx.on('tools/post-execute', (exec, result, next) => {
    const text = (result.content ?? []).map((block) => block.text ?? '').join('')
    const child = exec.name === 'subagent' && !result.isError ? STARTED.exec(text)?.[1] : undefined
    if (child !== undefined) {
      turns.started(child)
      write({ ev: 'spawn', agent: exec.agent.id, call: exec.callId, child, purpose: exec.arguments.description })
    }
    return next()
  }, { prepend: true })
  ctx.on('session/event', (session, { type, data }) => {
    if (type === 'turn/end') turns.ended(session.id)
    if (type !== 'agent/inbox/spliced') return
    for (const { source } of data.inserted) if (source?.kind === 'subagent-settled') turns.settled(source.senderSessionId)
  })
  ctx.on('agent/created', ({ agent }) => clearTimeout(leaving.get(agent.id)), { prepend: true })
  // One that was never announced, because its start failed, settles without a word.
  ctx.on('agent/disposed', ({ agent }) => {
    leaving.set(agent.id, setTimeout(() => turns.settled(agent.id), SETTLED_MS).unref())
  })
}

/** Without what would repeat the whole context or the timing of its stream at every event. */
function slim({ type, data }) {
  if (type === 'assistant/message' || type === 'assistant/attempt') {
    const { stream, ...rest } = data
    const finish = stream?.findLast((entry) => entry.chunk?.type === 'finish')
    return finish === undefined ? rest : { ...rest, finish: finish.chunk.reason }
  }
  if (type === 'request/header') return { reason: data.reason, config: data.header?.config }
  return data
}

async function decide(ctx, { agent, turn, step, signal, control, write }) {
  const known = decisions.get(agent)
  if (known?.turn === turn && known.step === step) return known.answer
  const asked = { agent, turn, step, signal, control, write }
  const answer = turns === null ? ask(ctx, asked) : turns.park(agent.id, signal).then(() => ask(ctx, asked))
  decisions.set(agent, { turn, step, answer })
  return answer
}

async function ask(ctx, { agent, turn, step, signal, control, write }) {
  const question = { at: 'pre-step', agent: agent.id, turn, step }
  let answer
  try {
    if (!attested.has(agent)) {
      attested.add(agent)
      question.live = await live(ctx, agent)
    }
    answer = await post(control, question, signal)
  } catch (error) {
    answer = lost(error)
  }
  write({ ev: 'control', agent: agent.id, turn, step, ...answer })
  return answer
}

async function post(control, question, signal) {
  try {
    const response = await fetch(control, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(question),
      signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
    })
    if (!response.ok) throw new Error(`the runner answered with status ${response.status}`)
    return await response.json()
  } catch (error) {
    return lost(error)
  }
}

function lost(error) {
  const why = error.cause ? `: ${error.cause.message ?? error.cause.code}` : ''
  return { go: false, why: 'control-lost', error: `${error.message}${why}` }
}

/** What is mounted, once everything has settled. */
async function live(ctx, agent) {
  await ctx.loader.await()
  const rows = []
  for (const entry of ctx.loader.entries()) {
    const { id, name } = entry.options
    rows.push({ id, name, disabled: Boolean(entry.disabled), state: entry.fiber ? STATES[entry.fiber.state] : 'absent' })
  }
  const service = ctx.get('agentPresets')
  const inventory = service ? await service.compositionInventory() : []
  const presets = inventory.map(({ id, broken, rows: inner }) => ({
    id,
    broken: broken ?? null,
    rows: inner.map((row) => ({ id: row.entryId.split(':').at(-1), name: row.moduleName, disabled: !row.enabled, state: STATES[row.fiberState] ?? 'absent' })),
  }))
  return { pid: process.pid, rows, presets, preset: service?.composedPreset(agent.ctx) ?? null }
}
