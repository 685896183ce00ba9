# Two commands do everything on a Debian machine that has Rust: `make demo` and `make test`.
#
# Compiled artefacts stay outside the clone, in $GNOMON_CACHE (else $XDG_CACHE_HOME/gnomon, else ~/.cache/gnomon), in one folder
# per clone: clones that shared one would take each other's crates for their own. One profile serves everything, so nothing
# is compiled twice.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test soak arti tcp-stall tcp-linux goodput packetdrill bench lab lab-profile build light lint fmt clean

cache := $(or $(GNOMON_CACHE),$(or $(XDG_CACHE_HOME),$(if $(HOME),$(HOME)/.cache,$(CURDIR)/target))/gnomon)
export CARGO_TARGET_DIR ?= $(cache)/target-$(shell printf '%s' '$(CURDIR)' | cksum | cut -d ' ' -f 1)

CARGO_FLAGS ?=

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

demo: ## run a private Tor network and show what came of it
	@tools/install-packages build demo
	@$(MAKE) --no-print-directory build
	@tools/demo

test: ## pass all tests and lints
	@tools/install-packages build test
	@tools/check-rust clippy fmt
	cargo fmt --all --check
	cargo build --release -p cheap-crypto $(CARGO_FLAGS)
	cargo test --workspace --release $$(tools/mpi-features) $(CARGO_FLAGS)
	cargo clippy --workspace --release --all-targets $$(tools/mpi-features) $(CARGO_FLAGS) -- -D warnings

soak: ## look for mistakes for SOAK_MINUTES (60): generated programs, bytes of any kind
	@tools/install-packages build test
	@tools/check-rust
	@tools/soak

arti: ## compile arti, the Tor Project's client in Rust, and test it as a client of private networks
	@tools/install-packages build test
	@tools/check-rust
	CARGO_TARGET_DIR=$(cache)/arti/target cargo install arti --version 2.7.0 --locked --no-default-features \
		--features tokio,rustls,compression,static-sqlite --root $(cache)/arti
	@echo 'arti: $(cache)/arti/bin/arti: gnomon tor new --client-kind arti --arti $(cache)/arti/bin/arti'
	cargo build --workspace --release $$(tools/mpi-features) $(CARGO_FLAGS)
	GNOMON_ARTI=$(cache)/arti/bin/arti cargo test --workspace --release $$(tools/mpi-features) $(CARGO_FLAGS) --test tor_arti -- --ignored

tcp-stall: ## let 10,000 TCP connections live over networks that lose and reorder
	@tools/check-rust
	cargo test --release -p tcpip --test stall $(CARGO_FLAGS) -- --ignored --nocapture

tcp-linux: ## play the table of TCP cases against this machine's Linux, as root
	@tools/check-rust
	cargo test --release -p tcpip --test scripts $(CARGO_FLAGS) -- --ignored --exact all_go_on_linux_as_recorded --nocapture

goodput: ## compare TCP's goodput with Linux's, by rate, round trip and loss
	@tools/check-rust
	cargo test --release -p tcpip --test goodput $(CARGO_FLAGS) -- --ignored --exact the_whole_grid_is_that_of_linux --nocapture

packetdrill: ## run the scripts of PACKETDRILL, a checkout of it that is built, against ours and Linux
	@test -n "$(PACKETDRILL)" || { echo 'make packetdrill PACKETDRILL=DIR [PACKETDRILL_FLAGS=--list]'; exit 2; }
	@tools/check-rust
	cargo build --release -p packetdrill $(CARGO_FLAGS)
	@tools/packetdrill "$(PACKETDRILL)" "$(CARGO_TARGET_DIR)/release/libpacketdrill.so" $(PACKETDRILL_FLAGS)

bench: ## measure, with the native figures of this machine beside each; with AGAINST=REVISION: compare with that
	@tools/install-packages build bench
	@$(MAKE) --no-print-directory build
	@if [ -n "$(AGAINST)" ]; then tools/bench-against "$(AGAINST)" "$(cache)/against"; else tools/bench; fi

lab: ## repeat published experiments, and judge their claims: lab.data/index.html
	@tools/install-packages build demo
	@$(MAKE) --no-print-directory build
	bin/gnomon lab all --size small -o lab.data

lab-profile: ## profile onion routing by role and hops, with pyipv8 from PyPI: lab.data/index.html
	@tools/install-packages build demo lab-profile
	@$(MAKE) --no-print-directory build
	bin/gnomon lab onion-profile --size small --repeat 5 -o lab.data

build: ## leave gnomon, gnomon-view, gnomon-traffic, gnomon-relay and gnomon-onion-client in bin, with gnomon-ranks where there is MPI, and what guests may load
	@tools/install-packages build
	@tools/check-rust
	cargo build --release -p gnomon -p traffic -p relay -p onion-client -p cheap-crypto -p ranks -p view $$(tools/mpi-features) $(CARGO_FLAGS)
	@mkdir -p bin
	@objcopy --compress-debug-sections "$(CARGO_TARGET_DIR)/release/gnomon" bin/gnomon.new && mv bin/gnomon.new bin/gnomon
	@install -m 755 "$(CARGO_TARGET_DIR)/release/gnomon-traffic" "$(CARGO_TARGET_DIR)/release/gnomon-relay" "$(CARGO_TARGET_DIR)/release/gnomon-onion-client" bin
	@install -s -m 755 "$(CARGO_TARGET_DIR)/release/gnomon-view" bin
	@install -m 644 "$(CARGO_TARGET_DIR)/release/libduckdb.so" "$(CARGO_TARGET_DIR)/release/libgnomon_cheap_crypto.so" bin
	@[ -z "$$(tools/mpi-features)" ] || install -m 755 "$(CARGO_TARGET_DIR)/release/gnomon-ranks" bin

light: build ## replace relays, light clients and traffic in bin by ones without shared libraries, for networks of thousands
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release -p traffic -p relay -p onion-client \
		--target x86_64-unknown-linux-gnu $(CARGO_FLAGS)
	@cd "$(CARGO_TARGET_DIR)/x86_64-unknown-linux-gnu/release" && \
		install -m 755 gnomon-traffic gnomon-relay gnomon-onion-client "$(CURDIR)/bin"

lint: ## clippy and rustfmt, changing nothing
	@tools/check-rust clippy fmt
	cargo fmt --all --check
	cargo clippy --workspace --release --all-targets $$(tools/mpi-features) $(CARGO_FLAGS) -- -D warnings

fmt: ## format the sources
	@tools/check-rust fmt
	cargo fmt --all

clean: ## remove what was built for this clone
	cargo clean
	rm -rf bin
