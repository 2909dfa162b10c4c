/** What no trace can hold, of the plugins' cores: each function asserts, on the modules that it is given. */
import assert from 'node:assert/strict'
import { runInNewContext } from 'node:vm'

const cycle = { a: [] }
cycle.a.push(cycle)
const NO_JSON = [
  ...[undefined, () => 0, Symbol('s'), 1n, new Date(0), new Map(), new Set(), /x/, new (class Own {})(), Object(1)],
  ...[cycle, [undefined], [, 1], { a: undefined }, { a: { b: 1n } }, Object.create({ a: 1 }), Object.create(Object.create(null))],
]

function valuesThatAreNoJson({ keys: { callKey, canonical } }) {
  for (const value of NO_JSON) {
    assert.equal(canonical(value), null)
    assert.equal(callKey('bash', { value }), null)
    assert.equal(callKey('bash', [value]), null)
  }
  assert.equal(callKey('bash', undefined), callKey('bash', {}))
  assert.notEqual(callKey('bash', null), callKey('bash', {}))
  assert.equal(canonical([NaN, Infinity, -0, 1e21, 2 ** 53 + 1]), '[null,null,0,1e+21,9007199254740992]')
  const shared = { b: 1 }
  assert.equal(canonical([shared, { a: shared }]), '[{"b":1},{"a":{"b":1}}]')
  assert.equal(canonical(Object.assign(Object.create(null), { a: 1 })), '{"a":1}')
  assert.equal(canonical(runInNewContext('({ b: [], a: {} })')), '{"a":{},"b":[]}')
  assert.equal(canonical(JSON.parse('{"constructor":1,"__proto__":{"a":1}}')), '{"__proto__":{"a":1},"constructor":1}')
}

function digests({ keys: { callKey, digest } }) {
  assert.equal(callKey('bash', {}), digest('["bash",{}]'))
  assert.equal(digest('a\ud83d'), 'sObzNKyXSmmdegfixYIPUVM+GOK0NXR5mkCBW/moTew=')
  assert.notEqual(digest('a\ud83d'), digest('a\ud83e'))
  assert.equal(callKey('bash', { text: 'x'.repeat(1000) }).length, 44)
}

function callsWithoutAKey({ breaker: { CircuitBreaker, configure } }) {
  const guard = new CircuitBreaker(configure({ duplicateLimit: 2, maxCallsPerAgent: 3 }))
  const state = CircuitBreaker.fresh()
  for (let n = 0; n < 3; n += 1) assert.equal(guard.beforeCall(state, 'bash', 1n), null)
  assert.equal(state.counts.size, 0)
  assert.equal(state.ring.length, 0)
  assert.deepEqual([guard.beforeCall(state, 'bash', 1n).kind, state.executed], ['cap', 3])
}

function callsThatAreStoppedElsewhere({ breaker: { CircuitBreaker, configure } }) {
  const guard = new CircuitBreaker(configure({ duplicateLimit: 2 }))
  const state = CircuitBreaker.fresh()
  assert.deepEqual(state, { executed: 0, ring: [], next: 0, counts: new Map() })
  assert.equal(guard.beforeCall(state, 'bash', 1, false), null)
  assert.deepEqual(state, CircuitBreaker.fresh())
  assert.equal(guard.beforeCall(state, 'bash', 1), null)
  assert.equal(state.executed, 1)
  assert.deepEqual(guard.beforeCall(state, 'bash', 1, false).kind, 'duplicate')
}

function theMemoryIsAsLargeAsTheWindow({ breaker: { CircuitBreaker, configure } }) {
  const guard = new CircuitBreaker(configure({ duplicateLimit: 2, window: 3 }))
  const state = CircuitBreaker.fresh()
  for (let n = 0; n < 50; n += 1) guard.beforeCall(state, 'bash', n)
  assert.deepEqual([state.ring.length, state.counts.size, state.executed, state.next], [3, 3, 50, 2])
  assert.deepEqual([...state.counts.values()], [1, 1, 1])
}

function whatIsForgottenOneByOne({ breaker: { CircuitBreaker, configure } }) {
  const guard = new CircuitBreaker(configure({ duplicateLimit: 3, window: 5 }))
  const state = CircuitBreaker.fresh()
  const letters = [...'abacdeaa'].map((args) => (guard.beforeCall(state, 'x', args) ? 'd' : 'r'))
  assert.equal(letters.join(''), 'rrrrrrrd')
}

function theDefaults({ breaker: { CircuitBreaker, configure } }) {
  const guard = new CircuitBreaker(configure({}))
  const state = CircuitBreaker.fresh()
  for (let n = 0; n < 300; n += 1) assert.equal(guard.beforeCall(state, 'bash', n), null)
  assert.equal(guard.beforeCall(state, 'bash', 'new').kind, 'cap')
  for (const tool of ['todo_write', 'ask_user_question', 'exit_plan_mode']) assert.equal(guard.guards(tool), false)
  assert.equal(guard.guards('bash'), true)
  assert.equal(new CircuitBreaker(configure({ enabled: false })).guards('bash'), false)
  for (const name of ['description', 'explanation', 'reason', 'thought', 'purpose']) assert.ok(guard.ignored.has(name))
  const other = CircuitBreaker.fresh()
  const letters = [...Array(5).fill('a'), ...Array(195).keys(), 'a', 300, 'a'].map((args) => (guard.beforeCall(other, 'x', args) ? 'd' : 'r'))
  assert.equal(letters.join(''), `${'r'.repeat(200)}drr`)
}

const shown = (text) => ({ error: false, content: text })

function chainsWithoutAKey({ loop: { LoopGuard, configure } }) {
  const guard = new LoopGuard(configure({ softThreshold: 2, hardThreshold: 3 }))
  const odd = { error: false, content: [{ type: 'image', data: 1n }] }
  for (const [args, result] of [[cycle, shown('x')], [{}, odd]]) {
    const chain = LoopGuard.fresh()
    assert.deepEqual(chain, { key: null, result: null, count: 0 })
    for (let n = 0; n < 5; n += 1) {
      assert.equal(guard.beforeCall(chain, 'bash', args), null)
      assert.equal(guard.afterResult(chain, 'bash', args, result), null)
      assert.equal(chain.count, 1)
    }
  }
  const eager = new LoopGuard(configure({ softThreshold: 0, hardThreshold: 1 }))
  const chain = LoopGuard.fresh()
  eager.afterResult(chain, 'bash', cycle, shown('x'))
  assert.deepEqual([chain.key, chain.count], [null, 1])
  assert.equal(eager.beforeCall(chain, 'bash', cycle), null)
  assert.equal(eager.beforeCall(LoopGuard.fresh(), 'bash', cycle), null)
}

function errorsAndTheirMessages({ loop: { LoopGuard, configure } }) {
  const guard = new LoopGuard(configure({ softThreshold: 2, hardThreshold: 0 }))
  const chain = LoopGuard.fresh()
  const told = (error, message) => guard.afterResult(chain, 'bash', {}, { error, message, content: 'x' })?.count
  const results = [[false], [false], [true, 'x'], [true, 'x'], [true, 'y'], [true, 'y']]
  assert.deepEqual(results.map((each) => told(...each)), [undefined, 2, undefined, 2, undefined, 2])
  assert.deepEqual([typeof chain.key, typeof chain.result, chain.count], ['string', 'string', 2])
  assert.notEqual(chain.key, chain.result)
  guard.userMessage(chain)
  assert.deepEqual(chain, LoopGuard.fresh())
}

function whatIsCompared({ loop: { LoopGuard, configure }, keys: { digest } }) {
  const result = (given, chars = 4000) => {
    const chain = LoopGuard.fresh()
    new LoopGuard(configure({ resultHashChars: chars })).afterResult(chain, 'bash', {}, given)
    return chain.result
  }
  assert.equal(result(shown('é')), digest('[{"type":"text","text":"é"}]'))
  assert.equal(result({ error: false, content: undefined }), digest('[]'))
  assert.equal(result(shown('é'), 20), digest('[{"type":"text","text":"é"}]'.slice(0, 20)))
  assert.equal(result({ error: true, message: 'm', content: 'é' }), digest('["error","m",[{"type":"text","text":"é"}]]'))
}

function wordsOfANudge({ loop: { nudgeText } }) {
  assert.match(nudgeText('x', 2, 1), /nothing new\. After 1 identical calls in a row this exact call will be denied\. Act on/)
  assert.match(nudgeText('x', 2, 0), /nothing new\. Act on/)
}

function blocks({ loop: { blocksOf } }) {
  assert.deepEqual(blocksOf('x'), [{ type: 'text', text: 'x' }])
  assert.deepEqual(blocksOf(undefined), [])
  assert.deepEqual(blocksOf(null), [])
  const given = [{ text: 'a', type: 'text', more: 1 }, { type: 'image', text: 2 }, null, { text: 'b' }]
  const wanted = '[{"type":"text","text":"a"},{"type":"image","text":2},null,{"text":"b"}]'
  assert.equal(JSON.stringify(blocksOf(given)), wanted)
}

function aSessionByHand({ refill: { CompactionBreaker, configure, refusalText } }) {
  const guard = new CompactionBreaker(configure({ maxConsecutiveRapidRefills: 2 }).settings)
  const state = CompactionBreaker.fresh()
  assert.deepEqual(state, { turns: 0, mark: null, rapid: 0, tripped: false, refused: 0 })
  assert.match(guard.status(state), /^not tripped; attempts refused: 0; rapid refills in a row: 0 \(limit 2, rapid is fewer than 2 tool turns\); no compaction yet$/)
  guard.modelResponse(state, 0)
  guard.modelResponse(state, 1)
  assert.equal(state.turns, 1)
  assert.deepEqual(guard.gate(state), { rapid: false, projected: 0, refusal: null })
  guard.commit(state, 0)
  assert.deepEqual(state, { turns: 1, mark: 1, rapid: 0, tripped: false, refused: 0 })
  guard.modelResponse(state, 3)
  assert.deepEqual(guard.gate(state), { rapid: true, projected: 1, refusal: null })
  guard.commit(state, 1)
  const refusal = { kind: 'rapid-refill', count: 1, limit: 2, reason: refusalText(2) }
  assert.deepEqual(guard.gate(state), { rapid: true, projected: 2, refusal })
  assert.deepEqual(guard.gate(state), { rapid: true, projected: 2, refusal: { ...refusal, kind: 'latched' } })
  assert.deepEqual(state, { turns: 2, mark: 2, rapid: 1, tripped: true, refused: 2 })
  guard.modelResponse(state, 1)
  assert.equal(
    guard.status(state),
    'tripped; attempts refused: 2; rapid refills in a row: 1 (limit 2, rapid is fewer than 2 tool turns); tool turns since the last compaction: 1',
  )
  guard.reset(state)
  assert.deepEqual(state, { turns: 3, mark: 3, rapid: 0, tripped: false, refused: 0 })
  guard.modelResponse(state, 1)
  guard.modelResponse(state, 1)
  assert.deepEqual(guard.gate(state), { rapid: false, projected: 0, refusal: null })
}

function wordsForThePrompt({ refill: { REASON, refusalText, sectionText } }) {
  assert.equal(REASON, 'compact_rapid_refill_breaker')
  assert.equal(
    refusalText(3),
    'Automatic compaction has stopped: the context was full again right after compaction, 3 times in a row. Read the file or run ' +
      'the command in smaller chunks, start a new task, or compact by hand. "/compaction-breaker reset" allows automatic compaction again.',
  )
  assert.equal(
    sectionText(3),
    'Automatic compaction of this conversation has stopped, because the context was full again right after compaction, 3 times in a row. ' +
      'Keep what you take in small: read files and run commands in smaller chunks. If the task can not be done that way, say so and ' +
      'stop: the user can start a new task, compact by hand, or enter "/compaction-breaker reset".',
  )
}

function keysOfTheBaseEngine({ refill: { BASE_KEYS, configure } }) {
  assert.deepEqual(BASE_KEYS, [
    ...['thresholdRatio', 'retainRatio', 'retainTokens', 'headroomTokens', 'summarizationProvider', 'summarizationModel'],
    ...['maxTokens', 'compactionRetries', 'maxOverflowRetries', 'modelPolicies', 'auto'],
  ])
  const own = { toolTurnThreshold: 2, maxConsecutiveRapidRefills: 3, announceInPrompt: true, variant: 'ours' }
  assert.deepEqual(configure(), { settings: own, base: {} })
  assert.deepEqual(configure({ auto: false, maxTokens: null, retainRatio: undefined }), { settings: own, base: { auto: false, maxTokens: null } })
  assert.deepEqual(configure({ other: 1 }, ['other']), { settings: own, base: { other: 1 } })
  assert.throws(() => configure({ auto: 1 }, ['other']), /unknown key "auto"/)
}

function mappings({ breaker, loop, refill }) {
  for (const { configure, GUARD } of [breaker, loop, refill]) {
    for (const given of [null, [], 'x', 3]) {
      assert.throws(() => configure(given), { message: `${GUARD}: config is ${JSON.stringify(given)}; allowed: a mapping of keys to values` })
    }
    assert.deepEqual(configure(), configure({}))
  }
  assert.throws(() => breaker.configure({ window: Symbol.iterator }), { message: 'circuit-breaker: window is Symbol(Symbol.iterator); allowed: an integer >= 1' })
  assert.equal(breaker.configure({ window: undefined }).window, 200)
  assert.equal(loop.KIND, 'identical-result')
  assert.throws(() => breaker.configure({ toString: 1 }), /unknown key "toString" \(value 1\); allowed keys: enabled, duplicateLimit, /)
}

/** By guard, and of keys.js and settings.js. */
export const units = {
  'circuit-breaker': [callsWithoutAKey, callsThatAreStoppedElsewhere, theMemoryIsAsLargeAsTheWindow, whatIsForgottenOneByOne, theDefaults, mappings],
  'loop-guard': [chainsWithoutAKey, errorsAndTheirMessages, whatIsCompared, wordsOfANudge, blocks, mappings],
  'compaction-breaker': [aSessionByHand, wordsForThePrompt, keysOfTheBaseEngine, mappings],
  'keys.js': [valuesThatAreNoJson, digests],
}
