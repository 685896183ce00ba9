'use strict';
// Shows the values of a plot's lines at the pointer's place. Lines lie in the SVG as places on paper; the axes' attributes say
// how to get from places to values.
const tip = document.getElementById('tip');
function axis(text) {
  const [start, end, from, to, kind, ...unit] = text.split(' ');
  const [s, e, f, t] = [start, end, from, to].map(Number);
  const value = place => {
    const share = (place - s) / (e - s);
    return kind === 'log' ? f * Math.pow(t / f, share) : f + share * (t - f);
  };
  return { value, low: Math.min(s, e), high: Math.max(s, e), unit: unit.join(' ') };
}
function show(value, unit) {
  const size = Math.abs(value);
  const digits = size === 0 ? 0 : Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size))));
  return value.toFixed(digits) + (unit ? ' ' + unit : '');
}
function heightAt(places, x, isStep) {
  let last = null;
  for (const [px, py] of places) {
    if (px >= x) {
      if (last === null) return px - x < 1 ? py : null;
      if (px === x || isStep) return px === x ? py : last[1];
      return last[1] + (py - last[1]) * (x - last[0]) / (px - last[0]);
    }
    last = [px, py];
  }
  return last !== null && (isStep || x - last[0] < 1) ? last[1] : null;
}
for (const svg of document.querySelectorAll('svg[data-x]')) {
  const x = axis(svg.dataset.x), y = axis(svg.dataset.y);
  const lines = [...svg.querySelectorAll('polyline[data-name]')].filter(line => line.dataset.name).map(line => ({
    name: line.dataset.name,
    places: line.getAttribute('points').split(' ').map(pair => pair.split(',').map(Number)),
  }));
  const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  cursor.setAttribute('class', 'a');
  cursor.setAttribute('stroke', '#8a8a8a');
  cursor.setAttribute('stroke-dasharray', '3 3');
  const hide = () => { tip.hidden = true; cursor.remove(); };
  svg.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    if (at.x < x.low || at.x > x.high || at.y < y.low - 8 || at.y > y.high + 8) return hide();
    const rows = lines.map(line => [heightAt(line.places, at.x, svg.dataset.step), line.name]).filter(row => row[0] !== null);
    rows.sort((a, b) => a[0] - b[0]);
    const shown = rows.slice(0, 14).map(([place, name]) => (lines.length > 1 ? name + ': ' : '') + show(y.value(place), y.unit));
    tip.textContent = [show(x.value(at.x), x.unit), ...shown].join('\n');
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 4)) + 'px';
    cursor.setAttribute('d', `M${at.x.toFixed(1)} ${y.low}V${y.high}`);
    svg.append(cursor);
  });
  svg.addEventListener('pointerleave', hide);
}
