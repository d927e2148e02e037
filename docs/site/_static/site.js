// From disk a page may not read another one, so a search has no excerpts to show there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
