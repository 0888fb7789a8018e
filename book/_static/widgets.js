// Bring the stored widgets of a notebook's page to life, without a kernel and without a network.
//
// The widget manager (widgetsnbextension.js, copied from the installed package at build time) was made for
// the classic Notebook. This file is the least of a Notebook that it needs: a loader for its one module,
// a kernel that knows no live widgets, and a saved state, which stands in the page.
(function () {
  "use strict";

  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';
  const here = document.currentScript.src;
  const nothing = () => {};

  function readState() {
    const merged = { version_major: 2, version_minor: 0, state: {} };
    document.querySelectorAll(STATE).forEach((element) => {
      Object.assign(merged.state, JSON.parse(element.textContent).state);
    });
    return merged;
  }

  function fakeKernel() {
    const kernel = {
      is_connected: () => true,
      comm_info: (_target, answer) => answer({ content: { comms: {} } }),
      comm_manager: {
        register_target: nothing,
        // With fewer than six parameters the manager would take it for that of Notebook 4.
        new_comm: (_target, _data, _callbacks, _metadata, _id, _buffers) => {
          throw new Error("there is no kernel behind a published page");
        },
      },
    };
    kernel.comm_manager.kernel = kernel;
    return kernel;
  }

  function fakeNotebook(ready) {
    return {
      kernel: fakeKernel(),
      metadata: { widgets: { "application/vnd.jupyter.widget-state+json": readState() } },
      keyboard_manager: { actions: { register: nothing }, register_events: nothing },
      container: { on: nothing },
      events: { on: nothing },
      // The manager asks for the cells once the saved state is in place, to render them.
      get_cells: () => {
        ready();
        return [];
      },
    };
  }

  function fakeJupyter(ready) {
    return {
      version: "6.5.7",
      notebook: fakeNotebook(ready),
      notification_area: { widget: nothing },
      menubar: { actions: { register: nothing } },
    };
  }

  // The manager adds its menu beside a help menu; it gets one that nobody sees.
  function hiddenHelpMenu() {
    const menu = document.createElement("div");
    menu.hidden = true;
    menu.innerHTML = '<div><div id="help_menu"></div></div>';
    document.body.append(menu);
  }

  function moduleLoader(jupyter) {
    function OutputArea() {}
    OutputArea.prototype.register_mime_type = nothing;
    const modules = {
      "base/js/namespace": jupyter,
      "base/js/events": jupyter.notebook.events,
      "notebook/js/outputarea": { OutputArea },
    };
    const load = (names, succeed, fail) => {
      const missing = names.find((name) => !(name in modules));
      Promise.resolve().then(() => {
        if (missing === undefined) {
          succeed(...names.map((name) => modules[name]));
        } else if (fail) {
          fail(new Error(`${missing} is not part of this book`));
        }
      });
    };
    load.config = nothing;
    return load;
  }

  // The manager sets formulas in labels through version 2 of MathJax; the pages have version 3.
  function bridgeMathJax() {
    if (window.MathJax && !window.MathJax.Hub) {
      window.MathJax.Hub = {
        Queue: ([_action, _hub, element]) => window.MathJax.typesetPromise?.([element]),
      };
    }
  }

  async function show(manager, extension, element) {
    const place = document.createElement("div");
    place.className = "jupyter-widgets-view";
    element.after(place);
    bridgeMathJax();
    try {
      const model = await manager.get_model(JSON.parse(element.textContent).model_id);
      const view = await manager.create_view(model);
      extension.JupyterLuminoWidget.attach(view.luminoWidget, place);
    } catch (error) {
      place.textContent = `This widget could not be shown: ${error.message}. It works in JupyterLab.`;
    }
  }

  function start() {
    const views = document.querySelectorAll(VIEW);
    if (views.length === 0) {
      return;
    }
    let extension;
    const jupyter = fakeJupyter(() => {
      const manager = jupyter.notebook.kernel.widget_manager;
      views.forEach((element) => show(manager, extension, element));
    });
    hiddenHelpMenu();
    bridgeMathJax();
    window.addEventListener("load", bridgeMathJax);
    window.Jupyter = jupyter;
    window.requirejs = window.require = moduleLoader(jupyter);
    const uri = new URL("widgetsnbextension.js", here).href;
    window.define = (_names, make) => {
      extension = make({ uri });
      delete window.define; // other libraries on the page would take it for a full module loader
      extension.load_ipython_extension();
    };
    const script = document.createElement("script");
    script.src = uri;
    document.head.append(script);
  }

  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", start);
  } else {
    start();
  }
})();
