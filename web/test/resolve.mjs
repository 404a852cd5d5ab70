// Lets Node run the page's pure modules as they are: their imports have no endings, as Vite wants them.
import { registerHooks } from "node:module";

registerHooks({
  resolve(name, context, next) {
    try {
      return next(name, context);
    } catch (error) {
      if (!name.startsWith(".")) throw error;
      return next(`${name}.ts`, context);
    }
  },
});
