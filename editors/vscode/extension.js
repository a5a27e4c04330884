// Starts `xdsl-spirv debug --dap` for a debugging session, and `xdsl-spirv language-server` for diagnostics.
const vscode = require("vscode");

const LANGUAGES = ["glsl", "spirv", "mlir", "slang", "hlsl", "wgsl"];
let client;

const command = () => vscode.workspace.getConfiguration("xdsl-spirv").get("command");

function activate(context) {
  const debug = {
    createDebugAdapterDescriptor: () => new vscode.DebugAdapterExecutable(command(), ["debug", "--dap"]),
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
  const server = { command: command(), args: ["language-server"] };
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
