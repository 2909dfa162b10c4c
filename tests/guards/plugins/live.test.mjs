/** What no trace can hold: values that are no JSON, depth and size beyond a trace's, objects of another realm. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { CircuitBreaker, configure as configureBreaker } from '../../../guards/plugins/circuit-breaker/core.js'
import { callKey, canonical } from '../../../guards/plugins/circuit-breaker/keys.js'
import { apply as applyBreaker } from '../../../guards/plugins/circuit-breaker/index.js'
import { configure as configureRefill } from '../../../guards/plugins/compaction-breaker/core.js'
import { configure as configureLoop, LoopGuard } from '../../../guards/plugins/loop-guard/core.js'

const cycle = { a: [] }
cycle.a.push(cycle)
const NO_JSON = [
  ...[undefined, () => 0, Symbol('s'), 1n, new Date(0), new Map(), new Set(), /x/, new (class Own {})(), Object(1)],
  ...[cycle, [undefined], [, 1], { a: undefined }, { a: { b: 1n } }],
]

test('what is no JSON value has no text and no key', () => {
  for (const value of NO_JSON) {
    assert.equal(canonical(value), null)
    assert.equal(callKey('bash', { value }), null)
  }
})

test('missing arguments are an empty object', () => {
  assert.equal(callKey('bash', undefined), callKey('bash', {}))
  assert.notEqual(callKey('bash', null), callKey('bash', {}))
})

test('numbers are written as JSON.stringify writes them', () => {
  assert.equal(canonical([NaN, Infinity, -0, 1e21, 2 ** 53 + 1]), '[null,null,0,1e+21,9007199254740992]')
})

test('a value that stands in two places is no cycle', () => {
  const shared = { b: 1 }
  assert.equal(canonical([shared, { a: shared }]), '[{"b":1},{"a":{"b":1}}]')
})

test('objects without a prototype and of another realm are plain', () => {
  assert.equal(canonical(Object.assign(Object.create(null), { a: 1 })), '{"a":1}')
  assert.equal(canonical(runInNewContext('({ b: [], a: {} })')), '{"a":{},"b":[]}')
})

test('names of prototypes are names', () => {
  assert.equal(canonical(JSON.parse('{"constructor":1,"__proto__":{"a":1}}')), '{"__proto__":{"a":1},"constructor":1}')
})

test('no depth overflows the stack', () => {
  let deep = 1
  for (let n = 0; n < 100_000; n += 1) deep = n % 2 ? [deep] : { a: deep }
  assert.equal(typeof callKey('bash', deep), 'string')
})

test('a key of many megabytes is a short digest', () => {
  assert.equal(callKey('bash', { text: 'x'.repeat(20_000_000) }).length, 44)
  assert.equal(callKey('bash', Array.from({ length: 500_000 }, (_, n) => n)).length, 44)
})

test('a call without a key counts toward the cap alone', () => {
  const breaker = new CircuitBreaker(configureBreaker({ duplicateLimit: 2, maxCallsPerAgent: 3 }))
  const state = CircuitBreaker.fresh()
  assert.equal(breaker.beforeCall(state, 'bash', 1n), null)
  assert.equal(breaker.beforeCall(state, 'bash', 1n), null)
  assert.equal(state.counts.size, 0)
  assert.equal(breaker.beforeCall(state, 'bash', 1n), null)
  assert.equal(breaker.beforeCall(state, 'bash', 1n).kind, 'cap')
})

test('a call without a key starts a new chain each time', () => {
  const guard = new LoopGuard(configureLoop({ softThreshold: 2, hardThreshold: 3 }))
  const chain = LoopGuard.fresh()
  const result = { error: false, content: 'x' }
  for (let n = 0; n < 5; n += 1) {
    assert.equal(guard.beforeCall(chain, 'bash', cycle), null)
    assert.equal(guard.afterResult(chain, 'bash', cycle, result), null)
    assert.equal(chain.count, 1)
  }
})

test('a result without a text starts a new chain each time', () => {
  const guard = new LoopGuard(configureLoop({ softThreshold: 2, hardThreshold: 3 }))
  const chain = LoopGuard.fresh()
  const result = { error: false, content: [{ type: 'image', data: 1n }] }
  for (let n = 0; n < 3; n += 1) assert.equal(guard.afterResult(chain, 'bash', {}, result), null)
})

test('an error and its message are part of what is compared', () => {
  const guard = new LoopGuard(configureLoop({ softThreshold: 2, hardThreshold: 0 }))
  const chain = LoopGuard.fresh()
  const told = (error, message) => guard.afterResult(chain, 'bash', {}, { error, message, content: 'x' })?.count
  const results = [[false], [false], [true, 'x'], [true, 'x'], [true, 'y'], [true, 'y']]
  assert.deepEqual(results.map((each) => told(...each)), [undefined, 2, undefined, 2, undefined, 2])
})

test('configuration must be a mapping', () => {
  for (const given of [null, [], 'x', 3]) {
    assert.throws(() => configureBreaker(given), /^Error: circuit-breaker: config is .*; allowed: a mapping of keys to values$/)
  }
  assert.deepEqual(configureLoop(undefined), { softThreshold: 4, hardThreshold: 8, resultHashChars: 4000 })
})

test('keys of the base engine are passed on as they are, and only those given', () => {
  const policies = [{ provider: 'p', model: 'm' }]
  const { settings, base } = configureRefill({ modelPolicies: policies, auto: false, toolTurnThreshold: 3, newest: 1 }, [
    ...['modelPolicies', 'auto', 'thresholdRatio', 'newest'],
  ])
  assert.deepEqual(base, { modelPolicies: policies, auto: false, newest: 1 })
  assert.equal(settings.toolTurnThreshold, 3)
})

test('a fault inside the guard lets the call go on and is said once', () => {
  const warned = []
  let ask
  const logger = { info: () => {}, warn: (...words) => warned.push(words) }
  applyBreaker({ tools: { guard: (guard) => (ask = guard) }, logger }, { duplicateLimit: 2, eventLog: '/missing/folder/x' })
  const agent = { id: 'a' }
  const broken = { agent, callId: 'c', arguments: {}, get name() { throw new Error('no name') } }
  assert.equal(ask(broken), undefined)
  assert.equal(ask(broken), undefined)
  assert.equal(warned.length, 1)
  const call = { agent, callId: 'c', arguments: {}, name: 'bash' }
  assert.equal(ask(call), undefined)
  assert.match(ask(call), /^This call was not run/)
  assert.equal(ask({ ...call, agent: undefined }), undefined)
})
