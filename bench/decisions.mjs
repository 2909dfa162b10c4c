/** Microseconds per decision of the plugins' cores; called by decisions.py with a job, prints the rows as JSON. */
import { CircuitBreaker, configure as configureBreaker } from '../guards/plugins/circuit-breaker/core.js'
import { CompactionBreaker, configure as configureRefill } from '../guards/plugins/compaction-breaker/core.js'
import { configure as configureLoop, LoopGuard } from '../guards/plugins/loop-guard/core.js'

const { sizes, line, different, rounds, times } = JSON.parse(process.argv[2])

const turns = (values) => {
  let at = 0
  return () => values[at++ % values.length]
}
const each = (make) => Array.from({ length: different }, (_, number) => make(number))
const text = (size, number) => `${number}${line.repeat(Math.floor(size / line.length) + 1)}`.slice(0, size)

function values(shape, size) {
  if (shape === 'text') return each((number) => ({ path: 'a.py', content: text(size, number) }))
  const items = Array.from({ length: Math.max(Math.floor(size / 40), 1) }, (_, n) => ({ name: `item ${n}`, id: n, done: true }))
  return each((number) => ({ number, items }))
}

function* cells() {
  for (const [size, bytes] of Object.entries(sizes)) {
    for (const shape of ['text', 'members']) {
      const next = turns(values(shape, bytes))
      const of = 'arguments'
      const breaker = new CircuitBreaker(configureBreaker({ duplicateLimit: 2, window: 1, maxCallsPerAgent: 0 }))
      const state = CircuitBreaker.fresh()
      yield [{ guard: 'circuit-breaker', asked: 'call', of, size, shape }, () => breaker.beforeCall(state, 'write', next())]
      const strict = new LoopGuard(configureLoop({ softThreshold: 0, hardThreshold: 1 }))
      const limit = LoopGuard.fresh()
      strict.afterResult(limit, 'write', {}, { error: false, content: [] })
      yield [{ guard: 'loop-guard', asked: 'call', of, size, shape }, () => strict.beforeCall(limit, 'write', next())]
      yield settled(of, size, shape, values(shape, bytes), [text(10, 0)])
    }
    const results = each((number) => text(bytes, number))
    yield settled('result', size, 'text', values('text', 10), results)
    yield settled('error', size, 'text', values('text', 10), results)
  }
  const refill = new CompactionBreaker(configureRefill({ maxConsecutiveRapidRefills: 1e9 }).settings)
  const session = CompactionBreaker.fresh()
  const decide = () => {
    refill.modelResponse(session, 1)
    refill.commit(session, refill.gate(session).projected)
  }
  yield [{ guard: 'compaction-breaker', asked: 'attempt', of: '-', size: '-', shape: '-' }, decide]
}

function settled(of, size, shape, given, results) {
  const guard = new LoopGuard(configureLoop({}))
  const chain = LoopGuard.fresh()
  const next = turns(given)
  const error = of === 'error'
  const shown = turns(results.map((message) => ({ error, message, content: [{ type: 'text', text: message }] })))
  return [{ guard: 'loop-guard', asked: 'result', of, size, shape }, () => guard.afterResult(chain, 'write', next(), shown())]
}

function measure(decide, count) {
  for (let n = 0; n < different; n += 1) decide()
  const found = []
  for (let n = 0; n < count; n += 1) {
    const begun = process.hrtime.bigint()
    decide()
    found.push(Number(process.hrtime.bigint() - begun) / 1000)
  }
  found.sort((one, other) => one - other)
  return { median: found[Math.floor(count / 2)], p99: found[Math.min(count - 1, Math.floor((count * 99) / 100))] }
}

const rows = []
for (const [row, decide] of cells()) {
  const found = Array.from({ length: rounds }, () => measure(decide, times[row.size]))
  found.sort((one, other) => one.median - other.median)
  rows.push({ ...row, ...found[0] })
}
console.log(JSON.stringify(rows))
