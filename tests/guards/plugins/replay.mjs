/**
 * Replays traces through the plugins' decision cores, by the rules of `tripbench replay`.
 *
 *     node replay.mjs GUARD CONFIG_JSON FILE...      prints one JSON object a decision
 *     node replay.mjs --serve                        answers each line of stdin with one line, {error: TEXT} where the
 *                                                    configuration is refused:
 *         {guard, config, trace}, `trace` being a file's text  ->  {decisions: [...]}, each with its `reason` too
 *         {guard, config}                                      ->  {settings: every key with its value in force}
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import * as breaker from '../../../guards/plugins/circuit-breaker/core.js'
import * as refill from '../../../guards/plugins/compaction-breaker/core.js'
import * as loop from '../../../guards/plugins/loop-guard/core.js'
import { player } from './streams.mjs'

const { replay, configure } = player({ breaker, loop, refill })

function answer({ guard, config, trace }) {
  try {
    if (trace === undefined) return { settings: configure(guard, config) }
    return { decisions: Array.from(replay(trace, guard, config), ({ row, reason }) => ({ ...row, reason })) }
  } catch (error) {
    return { error: error.message }
  }
}

const [first, config, ...files] = process.argv.slice(2)
if (first === '--serve') {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`)
  }
} else {
  for (const file of files) {
    for (const { row } of replay(readFileSync(file, 'utf8'), first, JSON.parse(config))) console.log(JSON.stringify(row))
  }
}
