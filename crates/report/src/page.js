'use strict';
// Shows the values of a plot's lines at the pointer's place, switches lines on and off by their names in the legend, and shows the part of a
// plot that was marked by dragging; a double click shows all again. Lines lie in the SVG as places on paper; the axes'
// attributes say how to get from places to values.
const tip = document.getElementById('tip');
function axis(text) {
  const [start, end, from, to, kind, ...unit] = text.split(' ');
  const [s, e, f, t] = [start, end, from, to].map(Number);
  const value = place => {
    const share = (place - s) / (e - s);
    return kind === 'log' ? f * Math.pow(t / f, share) : f + share * (t - f);
  };
  const place = value => s + (e - s) * (kind === 'log' ? Math.log(value / f) / Math.log(t / f) : (value - f) / (t - f));
  return { value, place, kind, low: Math.min(s, e), high: Math.max(s, e), unit: unit.join(' ') };
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
const create = (name, attributes) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
// Values for ticks between two, some five of them.
function ticks(from, to, kind) {
  if (kind === 'log' && to / from >= 8) {
    const found = [];
    for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) {
      for (const factor of to / from < 200 ? [1, 2, 5] : [1]) found.push(factor * Math.pow(10, power));
    }
    return found.filter(value => value >= from && value <= to);
  }
  const rough = (to - from) / 5, size = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = size * [1, 2, 5, 10].find(factor => factor * size >= rough);
  const found = [];
  for (let count = Math.ceil(from / step); count * step <= to * (1 + 1e-9); count++) found.push(count * step);
  return found;
}
// Names in legends and at lines' ends are switches.
for (const svg of document.querySelectorAll('figure svg')) {
  const off = new Set();
  const entries = [...svg.querySelectorAll('.e')];
  const toggle = name => {
    if (!off.delete(name)) off.add(name);
    for (const entry of entries.filter(entry => entry.dataset.of === name)) {
      entry.classList.toggle('off', off.has(name));
      entry.setAttribute('aria-pressed', String(!off.has(name)));
    }
    for (const part of svg.querySelectorAll('[data-of]:not(.e)')) {
      if (part.dataset.of === name) part.style.display = off.has(name) ? 'none' : '';
    }
  };
  for (const entry of entries) {
    for (const [key, value] of [['tabindex', '0'], ['role', 'button'], ['aria-pressed', 'true']]) entry.setAttribute(key, value);
    entry.addEventListener('click', () => toggle(entry.dataset.of));
    entry.addEventListener('keydown', event => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      toggle(entry.dataset.of);
    });
  }
}
for (const svg of document.querySelectorAll('svg[data-x]')) {
  const x = axis(svg.dataset.x), y = axis(svg.dataset.y);
  const lines = [...svg.querySelectorAll('polyline[data-name]')].filter(line => line.dataset.name).map(line => ({
    line,
    name: line.dataset.name,
    places: line.getAttribute('points').split(' ').map(pair => pair.split(',').map(Number)),
  }));
  const cursor = create('path', { class: 'a', stroke: '#8a8a8a', 'stroke-dasharray': '3 3' });
  const mark = create('rect', { fill: '#8a8a8a', 'fill-opacity': '0.2' });
  const clip = create('clipPath', { id: svg.getAttribute('aria-labelledby').split(' ')[0] + '-c' });
  clip.append(create('rect', { x: x.low, y: y.low, width: x.high - x.low, height: y.high - y.low }));
  const own = svg.querySelector('.ticks');
  // What is shown: place p of the whole picture lies at scale * p + shift.
  let view = { x: [1, 0], y: [1, 0] };
  let begun = null;
  const pointed = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const isInside = at => at.x >= x.low && at.x <= x.high && at.y >= y.low - 8 && at.y <= y.high + 8;
  const back = (at, [scale, shift]) => (at - shift) / scale;
  const hide = () => { tip.hidden = true; cursor.remove(); };
  function tick(part, line, text, value) {
    part.append(create('path', { class: 'g', stroke: '#e4e4e4', fill: 'none', ...line }));
    const written = create('text', { class: 't', 'font-size': 11, ...text });
    written.textContent = String(Number(value.toPrecision(4)));
    part.append(written);
  }
  function draw() {
    const isWhole = view.x[0] === 1 && view.y[0] === 1;
    svg.querySelector('.part')?.remove();
    own.style.display = isWhole ? '' : 'none';
    svg.append(clip);
    for (const group of svg.querySelectorAll('.d')) {
      if (group.parentNode === svg) {
        const box = create('g', {});
        group.replaceWith(box);
        box.append(group);
      }
      group.parentNode.setAttribute('clip-path', isWhole ? 'none' : `url(#${clip.id})`);
      group.setAttribute('transform', `matrix(${view.x[0]} 0 0 ${view.y[0]} ${view.x[1]} ${view.y[1]})`);
    }
    if (isWhole) return;
    const part = create('g', { class: 'part' });
    const ends = (axis, view) => [back(axis.low, view), back(axis.high, view)].map(axis.value).sort((a, b) => a - b);
    for (const value of ticks(...ends(x, view.x), x.kind)) {
      const at = x.place(value) * view.x[0] + view.x[1];
      tick(part, { d: `M${at} ${y.low}V${y.high}` }, { x: at, y: y.high + 16.5, 'text-anchor': 'middle' }, value);
    }
    for (const value of ticks(...ends(y, view.y), y.kind)) {
      const at = y.place(value) * view.y[0] + view.y[1];
      tick(part, { d: `M${x.low} ${at}H${x.high}` }, { x: x.low - 5, y: at + 4, 'text-anchor': 'end' }, value);
    }
    own.before(part);
  }
  svg.addEventListener('pointerdown', event => {
    const at = pointed(event);
    if (event.button !== 0 || event.pointerType !== 'mouse' || !isInside(at)) return;
    begun = at;
    event.preventDefault();
  });
  svg.addEventListener('pointermove', event => {
    const at = pointed(event);
    if (begun) {
      const span = (one, other, axis) => [one, other].map(value => Math.max(axis.low, Math.min(axis.high, value))).sort((a, b) => a - b);
      const [left, right] = span(begun.x, at.x, x);
      // What is marked along one axis is about that axis alone.
      const [top, bottom] = Math.abs(at.y - begun.y) < 12 ? [y.low, y.high] : span(begun.y, at.y, y);
      for (const [key, value] of [['x', left], ['y', top], ['width', right - left], ['height', bottom - top]]) mark.setAttribute(key, value);
      svg.append(mark);
    }
    if (!isInside(at)) return hide();
    const shown = lines.filter(({ line }) => line.style.display !== 'none' && line.parentNode.style.display !== 'none');
    const rows = shown.map(line => [heightAt(line.places, back(at.x, view.x), svg.dataset.step), line.name]).filter(row => row[0] !== null);
    rows.sort((a, b) => a[0] - b[0]);
    const told = rows.slice(0, 14).map(([place, name]) => (lines.length > 1 ? name + ': ' : '') + show(y.value(place), y.unit));
    tip.textContent = [show(x.value(back(at.x, view.x)), x.unit), ...told].join('\n');
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 4)) + 'px';
    cursor.setAttribute('d', `M${at.x.toFixed(1)} ${y.low}V${y.high}`);
    svg.append(cursor);
  });
  addEventListener('pointerup', () => {
    if (!begun) return;
    begun = null;
    if (!mark.isConnected) return;
    mark.remove();
    const [left, top, width, height] = ['x', 'y', 'width', 'height'].map(key => Number(mark.getAttribute(key)));
    if (width < 6 || height < 6) return;
    const zoom = ([scale, shift], axis, from, length) => {
      const factor = (axis.high - axis.low) / length;
      return [scale * factor, axis.low + (shift - from) * factor];
    };
    view = { x: zoom(view.x, x, left, width), y: zoom(view.y, y, top, height) };
    draw();
  });
  svg.addEventListener('dblclick', () => {
    view = { x: [1, 0], y: [1, 0] };
    draw();
  });
  svg.addEventListener('pointerleave', hide);
}
