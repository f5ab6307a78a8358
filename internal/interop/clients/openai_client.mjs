// Uses a server by the openai package: chat, stream, tools, JSON schema, embeddings, errors, cancel.
import assert from "node:assert";
import { createRequire } from "node:module";
const [packages, baseURL, apiKey] = process.argv.slice(2);
const { OpenAI, NotFoundError } = createRequire(packages + "/")("openai");

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 }), model = "tiny", messages = [{ role: "user", content: "what is in the sea" }];
const whole = await client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 12 });
let text = "";
for await (const chunk of await client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 12, stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
assert.equal(text, whole.choices[0].message.content);

const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] } } }];
const call = (await client.chat.completions.create({ model, messages, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 0, max_tokens: 200 })).choices[0];
assert.equal(call.finish_reason, "tool_calls");
assert.ok(["Oslo", "Rome"].includes(JSON.parse(call.message.tool_calls[0].function.arguments).city));

const response_format = { type: "json_schema", json_schema: { name: "n", schema: { type: "object", properties: { many: { type: "boolean" } }, required: ["many"] } } };
const value = JSON.parse((await client.chat.completions.create({ model, messages, response_format, temperature: 0, max_tokens: 200 })).choices[0].message.content);
assert.equal(typeof value.many, "boolean");
assert.equal((await client.embeddings.create({ model, input: ["sea", "hen"] })).data.length, 2);
await assert.rejects(client.chat.completions.create({ model: "none", messages }), NotFoundError);

const stream = await client.completions.create({ model, prompt: "the sea", temperature: 0, max_tokens: 100000, stream: true, ignore_eos: true });
for await (const _ of stream) break; // aborts the request
console.log("ok");
