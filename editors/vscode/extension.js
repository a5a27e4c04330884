// Starts `xdsl-spirv debug --dap` for a debugging session, and `xdsl-spirv language-server` for diagnostics.
const fs = require("fs");
const path = require("path");
const vscode = require("vscode");

const LANGUAGES = ["glsl", "spirv", "mlir", "slang", "hlsl", "wgsl"];
let client;

const NAME = process.platform === "win32" ? "Scripts/xdsl-spirv.exe" : "bin/xdsl-spirv";

// The setting's path, or the command of the folder's .venv, or of PATH. The editor's PATH is the login shell's.
function findCommand() {
  const given = vscode.workspace.getConfiguration("xdsl-spirv").get("command");
  const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
  const onPath = process.env.PATH.split(path.delimiter).map((place) => path.join(place, path.basename(NAME)));
  const places = given
    ? [given, ...folders.map((folder) => path.resolve(folder, given))]
    : [...folders.map((folder) => path.join(folder, ".venv", NAME)), ...onPath];
  const found = places.find((place) => path.isAbsolute(place) && fs.existsSync(place));
  if (found) return found;
  const missing = given ? `${given} is not there` : "the command xdsl-spirv is neither in the folder's .venv nor on PATH";
  const message = `xdsl-spirv: ${missing}: pip install 'xdsl-spirv[editor,glsl]', then set its path.`;
  vscode.window.showErrorMessage(message, "Set the path").then((answer) => {
    if (answer) vscode.commands.executeCommand("workbench.action.openSettings", "xdsl-spirv.command");
  });
  return undefined;
}

function activate(context) {
  const debug = {
    createDebugAdapterDescriptor() {
      const command = findCommand();
      if (!command) throw new Error("the command xdsl-spirv was not found");
      return new vscode.DebugAdapterExecutable(command, ["debug", "--dap"]);
    },
  };
  const launches = {
    // F5 without a launch.json debugs the open file.
    resolveDebugConfiguration: (_, given) =>
      given.type ? given : { type: "xdsl-spirv", request: "launch", name: "Debug this kernel", program: "${file}" },
  };
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("xdsl-spirv", debug),
    vscode.debug.registerDebugConfigurationProvider("xdsl-spirv", launches),
    vscode.commands.registerCommand("xdsl-spirv.debug", () =>
      vscode.debug.startDebugging(undefined, launches.resolveDebugConfiguration(undefined, {})),
    ),
    vscode.commands.registerCommand("xdsl-spirv.lowered", showLowered),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (!event.affectsConfiguration("xdsl-spirv.command")) return;
      await client?.stop();
      startServer();
    }),
  );
  startServer();
}

function startServer() {
  let language;
  try {
    language = require("vscode-languageclient/node");
  } catch {
    vscode.window.showWarningMessage("xdsl-spirv: no findings as you save: run `npm install` in the extension's folder");
    return;
  }
  const command = findCommand();
  if (!command) return;
  const server = { command, args: ["language-server"] };
  const selector = LANGUAGES.map((name) => ({ scheme: "file", language: name }));
  client = new language.LanguageClient("xdsl-spirv", "xdsl-spirv", server, { documentSelector: selector });
  client.start();
}

async function showLowered() {
  const editor = vscode.window.activeTextEditor;
  if (!client || !editor) return;
  const { lines } = await client.sendRequest("xdsl-spirv/lowered", { uri: editor.document.uri.toString() });
  const content = Object.entries(lines).flatMap(([line, text]) => [
    `; ${line}: ${editor.document.lineAt(line - 1).text.trim()}`,
    ...text,
    "",
  ]);
  const shown = await vscode.workspace.openTextDocument({ language: "spirv", content: content.join("\n") });
  await vscode.window.showTextDocument(shown, vscode.ViewColumn.Beside);
}

module.exports = { activate, deactivate: () => client?.stop() };
