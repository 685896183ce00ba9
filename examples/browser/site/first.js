window.first = performance.now();
