// Builds the page: `node build.mjs [FOLDER]`. The same sources and packages give the same bytes.
import { build } from "esbuild";
import { mkdir, copyFile, readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../../src/kakite/collab/page"));

const built = await build({
  absWorkingDir: here,
  entryPoints: ["src/app.ts", "src/app.css"],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

// Each package of which anything is in the bundle, with the licence that it came with.
const bundled = Object.values(built.metafile.outputs).flatMap(({ inputs }) =>
  Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path));
const packages = [...new Set(bundled.flatMap((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []))].sort();
const licences = [];
for (const name of packages) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} comes without the text of its licence`);
  const text = (await readFile(join(folder, file), "utf8")).replaceAll("\r\n", "\n").trim();
  licences.push(`${name} ${version} (${license})\n\n${text}\n`);
}
const rule = `\n${"-".repeat(78)}\n\n`;
await mkdir(out, { recursive: true });
await writeFile(join(out, "licences.txt"), `What app.js is made of, besides Kakite itself.\n${rule}${licences.join(rule)}`);
for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(out, name));
