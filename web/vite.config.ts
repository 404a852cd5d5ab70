import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// `npm run dev` serves the sources and hands /api to a running `ostler up --allow-origin http://127.0.0.1:5173`.
const server = process.env.OSTLER_URL ?? "http://127.0.0.1:7717";

export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    outDir: "../src/ostler/server/page",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // the Content-Security-Policy knows no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": { target: server, changeOrigin: false, ws: true } },
  },
});
