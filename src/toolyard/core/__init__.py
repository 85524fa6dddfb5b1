"""Shared types used by every other package: errors, actions, calls, events, limits. Imports no other toolyard
package.
"""
