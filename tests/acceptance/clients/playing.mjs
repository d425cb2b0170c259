// What every TypeScript client is made to do: play a plan, as playing.py says.

import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';

/** Fills in forms by what they see: the titles of the fields. */
export class Human {
  seen = [];
  #forms;

  constructor(forms) {
    this.#forms = forms.values();
  }

  fillIn({ message, requestedSchema }) {
    this.seen.push(message);
    const { value: said, done } = this.#forms.next();
    if (done) throw new Error('the plan has no such form');
    if (said === null) return { action: 'decline' };
    const names = Object.entries(requestedSchema.properties).map(([name, field]) => [field.title, name]);
    const nameOf = Object.fromEntries(names);
    const content = Object.fromEntries(Object.entries(said).map(([title, value]) => [nameOf[title], value]));
    return { action: 'accept', content };
  }
}

/** `fetch` that notes what is sent `beside` messages. */
export const noting = beside => async (url, init) => {
  const response = await fetch(url, init);
  const method = init?.method ?? 'GET';
  if (method !== 'POST') beside.push([method, new Headers(init?.headers).get('accept'), response.status]);
  return response;
};

/** Start the Run, do what it asks until it has ended, and tell what came of it. */
export async function play(plan, call) {
  const refused = await call('run', {});
  const ask = async (tool, args) => {
    const result = await call(tool, args);
    if ('error' in result) throw new Error(`${tool}: ${JSON.stringify(result)}`);
    return result;
  };
  const { instanceId } = (await ask('status', {})).service;
  const identity = () => ({ operationId: randomUUID(), serviceInstanceId: instanceId });
  const plays = Object.fromEntries(Object.entries(plan.agents).map(([step, visits]) => [step, visits.values()]));
  const interactions = [];
  let { run } = await ask('run', { loomName: plan.loom, input: plan.input, ...identity() });
  for (;;) {
    ({ run } = await ask('get_run', { runId: run.runId }));
    if (run.pendingAction) {
      const action = { runId: run.runId, actionId: run.pendingAction.id };
      interactions.push(await ask('interact', { ...action, ...identity() }));
    } else if (run.pendingAgentCall) {
      await work(ask, run, plays[run.cursor.step]);
    } else if (['queued', 'running'].includes(run.status)) {
      await setTimeout(50);
    } else {
      return { refused, run, interactions };
    }
  }
}

/** Claim the pending agent call, have its Tools run, and submit. */
async function work(ask, run, visits) {
  const task = { runId: run.runId, callId: run.pendingAgentCall.id };
  const { ownerToken } = await ask('claim_agent_call', { ...task, claimId: randomUUID() });
  const owned = { ...task, ownerToken };
  const play = visits.next().value;
  for (const { tool, input } of play.calls) {
    await ask('call_agent_tool', { ...owned, toolCallId: randomUUID(), toolId: tool, input });
  }
  await ask('complete_agent_call', { ...owned, result: play.output });
}
