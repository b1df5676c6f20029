# install.mk: `make install`, `make uninstall`, and what goes along: man pages, completions, files for pkg-config,
# CMake and environment modules.
# A run of `make install MPICC=... BUILD=...` for each MPI puts its flavour beside the others: LIBDIR/stridec/FLAVOUR.
# Variables: PREFIX, DESTDIR, and each folder below, on the command line: an environment's DATADIR may mean another
# thing. They may hold spaces, but no colons. LINK=no: without LIBDIR/libstridec.so, and files that name it.
LINK        = yes
BINDIR      = $(PREFIX)/bin
LIBDIR      = $(PREFIX)/lib
INCLUDEDIR  = $(PREFIX)/include
DATADIR     = $(PREFIX)/share
MANDIR      = $(DATADIR)/man
DOCDIR      = $(DATADIR)/doc/stridec
BASHDIR     = $(DATADIR)/bash-completion/completions
ZSHDIR      = $(DATADIR)/zsh/site-functions
MODULEDIR   = $(DATADIR)/modulefiles/stridec
$(call refuse,PREFIX DESTDIR BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR DOCDIR BASHDIR ZSHDIR MODULEDIR)
include packaging/flavour.mk
RELEASE := $(shell cat VERSION)

# Man pages and completions, from the command's own tables.
HELP = $(BUILD)/help/done
$(HELP): packaging/help.lua runtime/base/env.c VERSION $(BUILD)/stridec
	@mkdir -p $(@D)
	$(BUILD)/stridec help --list > $(@D)/listing
	$(BUILD)/stridec --help > $(@D)/overview
	$(LUA) packaging/help.lua $(@D)/listing $(@D)/overview runtime/base/env.c $(RELEASE) $(@D)
	touch $@

PRIVATE = $(LIBDIR)/stridec
LINKS   = $(LIBDIR)/libstridec.so $(LIBDIR)/libstridec.so.0
DOCS    = README.md CHANGELOG.md LICENSE packaging/NOTICES
# $(call into,FOLDER): as a word of the shell, with DESTDIR.
into    = "$(DESTDIR)$(1)"
# $(call fill,FOLDER) FILE: prints a file of packaging/ with its @WORDS@ filled in; @TO_...@ is a way from that folder.
fill    = sed -e "s|@VERSION@|$(RELEASE)|" $(if $(filter no,$(LINK)),-e '/stridec_LIBRARY/d;/^library=/d') \
            $(foreach v,PREFIX BINDIR MANDIR DATADIR,-e "s|@$v@|$$(realpath -sm "$($v)")|") \
            $(foreach v,PREFIX BINDIR LIBDIR INCLUDEDIR,-e "s|@TO_$v@|$$(realpath -sm --relative-to="$(1)" "$($v)")|")
# $(call put,FOLDER,FILE,NAME): fills in packaging/FILE.in and installs it, for all to read, whatever the umask.
put     = $(call fill,$(1)) packaging/$(2).in > $(BUILD)/help/filled && \
            install -D -m644 $(BUILD)/help/filled $(call into,$(1)/$(3))

install: all install-flavour install-common
install-flavour: all
	install -d $(call into,$(PRIVATE)/$(FLAVOUR))
	install -m755 $(BUILD)/libstridec.so $(BUILD)/stridec-mpi $(call into,$(PRIVATE)/$(FLAVOUR))
ifneq ($(LINK),no)
	[ -L $(call into,$(LIBDIR)/libstridec.so) ] && [ -e $(call into,$(LIBDIR)/libstridec.so) ] || \
	  ln -sf stridec/$(FLAVOUR)/libstridec.so $(call into,$(LIBDIR)/libstridec.so)
	ln -sf libstridec.so $(call into,$(LIBDIR)/libstridec.so.0)
endif
# With the simulated GPU, where it has been built. The command looks for ../lib/stridec.
install-common: all $(filter sim,$(MAKECMDGOALS))
	if [ -e $(SIM)/libcuda.so.1 ]; then \
	  install -d $(call into,$(PRIVATE)/sim) && cp -P $(SIM)/lib[cn]*.so* $(call into,$(PRIVATE)/sim) && \
	  chmod 755 $(call into,$(PRIVATE)/sim)/lib[cn]*.so*; fi
	if [ -s $(KERNELS) ]; then \
	  install -d $(call into,$(PRIVATE)/kernels) && \
	  install -m644 $(KERNELS) $(dir $(KERNELS))*.cubin $(call into,$(PRIVATE)/kernels); fi
	install -d $(call into,$(PRIVATE)) $(call into,$(BINDIR)/../lib)
	install -m755 $(BUILD)/stridec $(call into,$(BINDIR)/stridec)
	[ -d $(call into,$(BINDIR)/../lib/stridec) ] && [ ! -L $(call into,$(BINDIR)/../lib/stridec) ] || \
	  ln -sfnr $(call into,$(PRIVATE)) $(call into,$(BINDIR)/../lib/stridec)
	install -D -m644 runtime/api/stridec.h $(call into,$(INCLUDEDIR)/stridec.h)
	$(call put,$(DATADIR)/pkgconfig,stridec.pc,stridec.pc)
	$(call put,$(DATADIR)/cmake/stridec,stridecConfig.cmake,stridecConfig.cmake)
	$(call put,$(DATADIR)/cmake/stridec,stridecConfigVersion.cmake,stridecConfigVersion.cmake)
	$(call put,$(MODULEDIR),modulefile,$(RELEASE))
	install -d $(call into,$(MANDIR)/man1) $(call into,$(BASHDIR)) $(call into,$(ZSHDIR)) $(call into,$(DOCDIR))
	install -m644 $(BUILD)/help/*.1 $(call into,$(MANDIR)/man1)
	install -m644 $(BUILD)/help/stridec.bash $(call into,$(BASHDIR)/stridec)
	install -m644 $(BUILD)/help/_stridec $(call into,$(ZSHDIR)/_stridec)
	install -m644 $(DOCS) $(call into,$(DOCDIR))

# All flavours: files that an install makes, and folders that are empty then: LIBDIR/stridec may be somebody's sources.
uninstall:
	rm -f $(foreach f,$(FLAVOURS),$(call into,$(PRIVATE)/$f/libstridec.so) $(call into,$(PRIVATE)/$f/stridec-mpi))
	rm -f $(call into,$(PRIVATE)/kernels)/manifest $(call into,$(PRIVATE)/kernels)/*.cubin
	rm -f $(call into,$(PRIVATE)/sim)/lib[cn]*.so* $(call into,$(DATADIR)/cmake/stridec)/stridecConfig*.cmake
	rm -f $(foreach f,$(LINKS),$(call into,$f)) $(call into,$(BINDIR)/stridec) \
	  $(call into,$(INCLUDEDIR)/stridec.h) $(call into,$(DATADIR)/pkgconfig/stridec.pc) \
	  $(call into,$(MODULEDIR)/$(RELEASE)) $(call into,$(MANDIR)/man1/stridec.1) $(call into,$(MANDIR)/man1)/stridec-*.1 \
	  $(call into,$(BASHDIR)/stridec) \
	  $(call into,$(ZSHDIR)/_stridec) $(foreach f,$(notdir $(DOCS)),$(call into,$(DOCDIR)/$f))
	[ ! -L $(call into,$(BINDIR)/../lib/stridec) ] || rm $(call into,$(BINDIR)/../lib/stridec)
	rmdir $(foreach f,$(FLAVOURS) sim kernels,$(call into,$(PRIVATE)/$f)) $(call into,$(PRIVATE)) \
	  $(call into,$(DATADIR)/cmake/stridec) $(call into,$(MODULEDIR)) $(call into,$(DOCDIR)) 2>/dev/null || true

.PHONY: install install-flavour install-common uninstall
