// A model for real agents: aimock with the answers of model.json, on a loopback port that the system chooses.
//
//   node model.mjs INSTALLED
//
// INSTALLED is what scripts/agents/install prints. Prints {"url":"http://127.0.0.1:4711"} when it is ready, and ends when its
// standard input does.
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { join, resolve } from "node:path";

const require = createRequire(join(resolve(process.argv[2]), "package.json"));
const { LLMock } = require("@copilotkit/aimock");

const model = new LLMock({ port: 0, host: "127.0.0.1" });
model.loadFixtureFile(fileURLToPath(new URL("model.json", import.meta.url)));
await model.start();
process.stdout.write(JSON.stringify({ url: model.url }) + "\n");

process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
process.stdin.on("error", () => process.exit(0));
