/**
 * Lets every root agent join the preset named by config `preset` before its first prompt; children inherit it.
 *
 * `agent/created` is awaited by the harness, so a preset that can not be joined fails the session loudly.
 */
export const name = 'tripbench-preset-joiner'
export const inject = ['agents', 'agentPresets']

export function apply(ctx, { preset }) {
  ctx.on('agent/created', async ({ agent, source }) => {
    if (!ctx.agents.roots().includes(agent)) return
    if (ctx.agentPresets.composedPreset(agent.ctx) !== undefined) return
    // A session that has begun refuses select().
    if (source === 'resume') await ctx.agentPresets.mount(agent.ctx, preset)
    else await ctx.agentPresets.select(agent, preset)
  })
}
