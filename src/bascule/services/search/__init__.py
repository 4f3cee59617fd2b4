"""Engines that search the web, each behind the same port."""
